"""Whether the limits of a topic (`delayline.questions.pending`) take what a request would add to those that wait.

What adds no message is not refused: a request that was accepted before, or an own id that a pending message has. Only
the owner of its shard knows; it is asked where the topic has no room, and only there.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from api.bridge import Bridge
from api.http.problems import LIMIT_EXCEEDED, Refusal
from api.sending.drafts import Draft
from api.services import Services
from api.topics import TopicBook, named_partition
from delayline.access.ledger import Account
from delayline.access.quotas import Limit
from delayline.questions.inquiry import Held, OwnerUnavailable, RequestedNames
from delayline.questions.pending import Full
from delayline.records.message import Shard
from mq.errors import QueueError

_Name = tuple[Shard, RequestedNames]


class _Added(NamedTuple):
    """How many messages wait more, and how many that repeat."""

    adds: int = 0
    repeats: int = 0

    def more(self, draft: Draft, held: Held) -> "_Added":
        """With this one, whose names are `held` so."""
        adds = held is Held.FREE
        is_new = adds or (draft.replaces and held is Held.MESSAGE)
        return _Added(self.adds + adds, self.repeats + (is_new and draft.repeats))


class Admission:
    """Belongs to the event loop."""

    def __init__(self, services: Services, topics: TopicBook, bridge: Bridge) -> None:
        self._full = services.full
        self._owners = services.owners
        self._timeout_s = services.settings.owner_timeout_s
        self._topics = topics
        self._bridge = bridge

    async def refused(
        self, topic: str, drafts: Mapping[int, Draft], account: Account | None = None, *, atomic: bool
    ) -> dict[int, Refusal]:
        """Those of the drafts, by index, that there is no room for. Raises Refusal where none is to be stored without
        the others, and OverQuota where the sender's quota has no room for all. Hot: once per request."""
        if account is not None and account.quota.pending_max is not None:
            await self._check_quota(topic, drafts, account)
        repeats = [draft.repeats for draft in drafts.values() if draft.directives]
        full = self._full(topic, adds=len(repeats), repeats=sum(repeats)) if repeats else None
        if full is None:
            return {}
        refused = await self._beyond_room(topic, _waiting(drafts), self._full)
        if refused and atomic:
            raise _refusal(full)
        return {index: _refusal(why) for index, why in refused.items()}

    async def _check_quota(self, topic: str, drafts: Mapping[int, Draft], account: Account) -> None:
        """Raises OverQuota: all of a request, or nothing."""
        full, waiting = partial(self._full, pending_max=account.quota.pending_max), _waiting(drafts)
        why = full(topic, adds=len(waiting)) if waiting else None
        if why is not None and await self._beyond_room(topic, waiting, full):
            raise account.refusal(Limit.PENDING, why)

    async def _beyond_room(self, topic: str, waiting: Mapping[int, Draft], full: Full) -> dict[int, str]:
        """Those that there is no room for, and why. Of two with one name the second adds nothing, where the first is
        taken."""
        names = await self._names(topic, waiting)
        held = await self._held(names.values())
        so_far, refused = _Added(), dict[int, str]()
        for index, draft in waiting.items():
            name = names.get(index)
            now = Held.FREE if name is None else held.get(name, Held.FREE)
            added = so_far.more(draft, now)
            why = None if added == so_far else full(topic, adds=added.adds, repeats=added.repeats)
            if why is not None:
                refused[index] = why
                continue
            so_far = added
            if name is not None and now is not Held.REQUEST and (now is Held.FREE or draft.replaces):
                held[name] = Held.REPEAT if draft.repeats else Held.MESSAGE
        return refused

    async def _names(self, topic: str, waiting: Mapping[int, Draft]) -> dict[int, _Name]:
        """What the drafts that claim a name would be called, and where; of a topic that is there."""
        conditional = {index: draft for index, draft in waiting.items() if draft.is_conditional}
        if not conditional:
            return {}
        try:
            info = await self._topics.info(topic)
        except QueueError:
            return {}
        names = {}
        for index, draft in conditional.items():
            partition = named_partition(info, draft.partition, draft.place_key)
            if partition is not None:
                key = None if draft.idempotency is None else draft.idempotency.key
                names[index] = Shard(topic, partition), RequestedNames(draft.own_id, key)
        return names

    async def _held(self, names: Iterable[_Name]) -> dict[_Name, Held]:
        """Who has these names, as far as the owners of their shards answer."""
        requested: dict[Shard, list[RequestedNames]] = {}
        for shard, one in dict.fromkeys(names):
            requested.setdefault(shard, []).append(one)
        answers = await asyncio.gather(*(self._asked(shard, some) for shard, some in requested.items()))
        return {
            (shard, one): held
            for (shard, some), answer in zip(requested.items(), answers, strict=True)
            for one, held in zip(some, answer, strict=False)
        }

    async def _asked(self, shard: Shard, requested: Sequence[RequestedNames]) -> Sequence[Held]:
        try:
            return await self._bridge.result(self._owners.held(shard, requested), self._timeout_s)
        except (TimeoutError, OwnerUnavailable, QueueError):
            return ()


def _waiting(drafts: Mapping[int, Draft]) -> dict[int, Draft]:
    return {index: draft for index, draft in drafts.items() if draft.directives}


def _refusal(full: str) -> Refusal:
    return Refusal(LIMIT_EXCEEDED, full, status=429)
