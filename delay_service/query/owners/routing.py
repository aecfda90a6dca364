"""Which worker is asked, and how often.

In a rebalance a shard has no owner for a moment, and the table of owners is a moment old: a question is asked
again until an owner answers it or its time is up. Questions change nothing, so that asking twice does no harm.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from itertools import chain
from typing import Any, NamedTuple, Protocol

from delay_service.query.owners import local
from delay_service.query.owners.directory import Directory, OwnerAdmin
from delay_service.query.owners.errors import NotMine, NotYet, Rejected
from delay_service.query.owners.local import LocalOwners
from delay_service.query.owners.methods import Method, covered
from delay_service.query.owners.waits import AGAIN_S, PAUSE_S
from delayline.clock import Clock
from delayline.questions.inquiry import OwnerUnavailable
from delayline.records.message import Shard
from mq.contract import Owner
from mq.errors import PartitionUnknown, QueueError, TopicUnknown

SILENCE_S = PAUSE_S / 2
"""Between two tries of all questions to a worker that does not answer; each of them alone is not held up by it."""

LOOK_AGAIN_S = 0.5
"""After so long without an answer the table is renewed, and asked whether the shard is still that worker's: it may be
older than the last rebalance."""


class NoShard(OwnerUnavailable):
    """There is no such topic or partition: no owner will ever answer."""


class Silence(NamedTuple):
    """A worker that has not answered about a shard, and when it may be asked the next time."""

    owner: Owner
    until_s: float
    why: str


class Survey(NamedTuple):
    """A question to all owners, and until when it is asked again, and answered."""

    method: Method
    arguments: tuple[Any, ...]
    asked_s: float
    again_until_s: float
    give_up_s: float


class AsksWorkers(Protocol):
    """See `owners.remote.Remote`."""

    async def ask(self, owner: Owner, method: Method, arguments: tuple[Any, ...], wait_s: float) -> Any: ...


class Routing:
    """Belongs to one event loop. `here` is the worker of this process, if it has one; `threads` do what blocks."""

    def __init__(
        self,
        directory: Directory,
        remote: AsksWorkers,
        here: LocalOwners | None,
        admin: OwnerAdmin,
        threads: Executor,
        clock: Clock,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._directory = directory
        self._remote = remote
        self._here = here
        self._admin = admin
        self._threads = threads
        self._clock = clock
        self._pause = pause
        self._silent: dict[Shard, Silence] = {}
        self._unowned: set[Shard] = set()
        """Shards that a newer table did not have either: of topics without delayed messages. They hold up one list,
        and not each. Bounded by the shards that are asked about."""

    async def ask(self, method: Method, arguments: tuple[Any, ...], within_s: float) -> Any:
        """The answer of the shard's owner. Raises OwnerUnavailable, NoShard, QueueUnavailable."""
        shard, give_up_s = method.shard(arguments), self._clock.monotonic_s() + within_s
        assert shard is not None, f"{method.name} names no shard"
        exists = False
        while True:
            try:
                return await self._once(method, shard, arguments, give_up_s)
            except OwnerUnavailable as error:
                self._directory.want()
                if isinstance(error, Rejected) or self._clock.monotonic_s() + PAUSE_S >= give_up_s:
                    raise
            if not exists and self._directory.owner(shard) is None:
                exists = await self._checked(shard)
            await self._pause(PAUSE_S)

    async def ask_all(self, method: Method, arguments: tuple[Any, ...], within_s: float) -> list[Any]:
        """The answers of the owners, one after the other. The first argument, if there is any, names shards, and each
        owner is asked about its own. An owner that does not answer is asked again for `AGAIN_S`, and then left
        out."""
        now_s = self._clock.monotonic_s()
        survey = Survey(method, arguments, now_s, now_s + AGAIN_S, now_s + within_s)
        while self._directory.is_empty and await self._again(survey.again_until_s):
            pass
        return await self._collect(survey, set(arguments[0]) if arguments else None)

    async def _collect(self, survey: Survey, shards: set[Shard] | None) -> list[Any]:
        """The answers of the owners of the shards. Each is asked again on its own: one that is frozen holds up no
        other."""
        parts, later = self._parts(shards, survey.asked_s)
        asking = [self._part(survey, owner, its) for owner, its in parts.items()]
        found = await asyncio.gather(*asking, self._collect_again(survey, later))
        return list(chain.from_iterable(found))

    async def _collect_again(self, survey: Survey, shards: set[Shard]) -> list[Any]:
        """The same, a moment later, and nothing where there is no time for that."""
        if not shards or not await self._again(survey.again_until_s):
            return []
        return await self._collect(survey, shards)

    async def _again(self, until_s: float) -> bool:
        """Have the table renewed and wait a moment; whether there is time for that."""
        self._directory.want()
        if self._clock.monotonic_s() + PAUSE_S > until_s:
            return False
        await self._pause(PAUSE_S)
        return True

    def _parts(self, shards: set[Shard] | None, asked_s: float) -> tuple[dict[Owner, set[Shard]], set[Shard]]:
        """The owners to ask about which shards, and the shards to ask about later: during a rebalance no member knows
        their owners, and a new shard has one that the table lacks. None means all shards that have an owner."""
        here, table = self._here, self._directory.owners()
        ours = Owner(here.writer) if here is not None else None
        parts: dict[Owner, set[Shard]] = {} if ours is None or shards is not None else {ours: set()}
        later: set[Shard] = set()
        for shard in sorted(table if shards is None else shards):
            owner = ours if here is not None and here.owns(shard) else table.get(shard)
            if owner is not None and (owner == ours or owner.address):
                parts.setdefault(owner, set()).add(shard)
                self._unowned.discard(shard)
            elif self._directory.trouble or (shard not in self._unowned and self._directory.is_from_before(asked_s)):
                later.add(shard)
            else:
                self._unowned.add(shard)
        return parts, later

    async def _part(self, survey: Survey, owner: Owner, shards: set[Shard]) -> list[Any]:
        """The answer of one owner, and after that later answers about those of its shards that it left out."""
        method, arguments = survey.method, survey.arguments
        question = (sorted(shards), *arguments[1:]) if arguments else ()
        wait_s = max(0.0, survey.give_up_s - self._clock.monotonic_s())
        found: list[Any] = []
        try:
            if owner.address:
                asking = self._while_it_owns(owner, method, shards, question, wait_s)
                found = await asyncio.wait_for(asking, wait_s)
            else:
                assert self._here is not None, "only this process has no address"
                found = await local.ask(self._here, method, question, wait_s, self._clock)
        except Rejected:
            return []
        except (OwnerUnavailable, QueueError, TimeoutError):
            pass
        return found + await self._collect_again(survey, shards - covered(found))

    async def _once(self, method: Method, shard: Shard, arguments: tuple[Any, ...], give_up_s: float) -> Any:
        wait_s = max(0.0, give_up_s - self._clock.monotonic_s())
        if self._here is not None and self._here.owns(shard):
            return await local.ask(self._here, method, arguments, wait_s, self._clock)
        owner = self._directory.owner(shard)
        if owner is None:
            why = f": {self._directory.trouble}" if self._directory.trouble else ""
            raise OwnerUnavailable(f"no worker owns shard {'.'.join(shard)} right now{why}")
        if not owner.address or (self._here is not None and owner.writer == self._here.writer):
            raise OwnerUnavailable(f"shard {'.'.join(shard)} is changing its owner")
        return await self._there(owner, method, shard, arguments, wait_s)

    async def _there(
        self, owner: Owner, method: Method, shard: Shard, arguments: tuple[Any, ...], wait_s: float
    ) -> Any:
        """One question at a time finds out whether a silent worker answers again: hundreds that wait for a takeover,
        each of them asking five times a second, would leave the API no time for shards that are well."""
        self._check_silence(owner, shard)
        try:
            answer = await self._while_it_owns(owner, method, {shard}, arguments, wait_s)
        except NotYet:
            self._silent.pop(shard, None)
            raise
        except OwnerUnavailable as error:
            self._silent[shard] = Silence(owner, self._clock.monotonic_s() + SILENCE_S, str(error))
            raise
        self._silent.pop(shard, None)
        return answer

    def _check_silence(self, owner: Owner, shard: Shard) -> None:
        """Raises OwnerUnavailable, unless it is time to ask again; then it is not for the others."""
        silence = self._silent.get(shard)
        if silence is None or silence.owner != owner:
            return
        now_s = self._clock.monotonic_s()
        if now_s < silence.until_s:
            raise OwnerUnavailable(silence.why)
        self._silent[shard] = silence._replace(until_s=now_s + SILENCE_S)

    async def _while_it_owns(
        self, owner: Owner, method: Method, shards: set[Shard], arguments: tuple[Any, ...], wait_s: float
    ) -> Any:
        """A worker that is frozen, or whose machine is gone, does not answer for as long as it may: what the group
        reports meanwhile counts. Raises NotMine once any of the shards is another's."""
        asking = asyncio.create_task(self._remote.ask(owner, method, arguments, wait_s))
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_AGAIN_S))[0]:
                self._directory.want()
                table = self._directory.owners()
                for shard in shards:
                    if table.get(shard, owner) != owner:
                        raise NotMine(f"shard {'.'.join(shard)} has another owner now")
            return asking.result()
        finally:
            asking.cancel()

    async def _checked(self, shard: Shard) -> bool:
        """Raises NoShard, QueueUnavailable."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._admin.log_range, shard)
        except (TopicUnknown, PartitionUnknown) as error:
            raise NoShard(str(error)) from error
        return True
