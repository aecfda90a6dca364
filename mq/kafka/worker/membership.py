"""The group member: who owns which shard.

The member is a consumer that never fetches: it takes part in the group, and what it is assigned is read elsewhere
(`source.py`), so that a rebalance never disturbs reading. It lives in a thread of its own, because `on_revoke` has to
wait: the shards must not go before the commit in flight has ended, and the worker has dropped what it took from them.

What a commit must carry to be refused once the group has gone on without us (member and generation) is taken in the
callback that brings an assignment, and never newer than that. A shard's *tenure* counts its assignments to us: a
batch that was taken under an earlier one is void.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition
from threading import Event as Flag

from confluent_kafka import Consumer, KafkaException, TopicPartition

from delayline.clock import Clock
from delayline.process import logs, threads
from delayline.records.message import Shard
from mq.contract import Assigned, Event, Lost, Revoked
from mq.kafka.librdkafka import trouble
from mq.kafka.settings import KafkaSettings

POLL_S = 0.1
LEAVE_S = 10.0
HEAR_OUT_S = 5.0
"""How long a member that leaves listens for what the group still sends it."""
LOOK_S = 1.0
"""For one list of all topics."""

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """What we are in the group right now. `metadata` is None where we are nothing."""

    metadata: bytes | None
    tenures: dict[Shard, int]


class Membership:
    """`notify` gets assignments in the member's thread; it must not block."""

    def __init__(self, settings: KafkaSettings, writer: str, clock: Clock, notify: Callable[[Event], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._notify = notify
        self._changed = Condition()
        self._metadata: bytes | None = None
        self._tenures: dict[Shard, int] = {}
        self._revoked: set[Shard] = set()
        self._last_tenure = 0
        self._news = 0
        self._closing = False
        self._closed = False
        self._ended = Flag()  # set with `_closed`
        self._broken = False
        self._look = False
        self._alive_s = clock.monotonic_s()
        self._named_s: float | None = None
        """When the group last knew us; None before the first time."""
        self._client_id = f"{writer}@{settings.address}" if settings.address else writer
        self._member = self._join()
        self._thread = threads.lasting("kafka-member", self._run, self._ended)
        self._thread.start()

    def _join(self) -> Consumer:
        member = Consumer(self._settings.member(self._client_id))
        pattern = "^" + self._settings.names.buffer("").replace(".", "\\.") + ".+"
        member.subscribe([pattern], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        return member

    # --- from the worker's threads

    def alive(self) -> None:
        """The worker is at work. Without this call for `poll_interval_max_s` the shards go to others."""
        self._alive_s = self._clock.monotonic_s()

    def standing(self) -> Standing:
        with self._changed:
            return Standing(self._metadata, dict(self._tenures))

    def wait_newer(self, standing: Standing, timeout_s: float) -> Standing:
        """The standing after the next rebalance, or the same where none ends in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._metadata != standing.metadata, timeout_s)
        return self.standing()

    def release(self, shards: Sequence[Shard]) -> None:
        """The worker has let go of revoked shards."""
        with self._changed:
            self._revoked.difference_update(shards)
            self._changed.notify_all()

    def look_for_buffers(self) -> None:
        """There is a new buffer topic: not to be found only when `discovery_interval_s` is over."""
        self._look = True

    def close(self) -> None:
        """Leave the group."""
        with self._changed:
            self._closed = True
            self._ended.set()
            self._changed.notify_all()
        self._thread.join(LEAVE_S)

    # --- the member's thread

    def _run(self) -> None:
        """Where anything but the group's word ends it, it begins again as another member."""
        try:
            if self._broken:
                self._join_anew("the last member failed")
            self._take_part()
        except BaseException:
            self._broken = True
            raise

    def _take_part(self) -> None:
        while not self._closed:
            if self._worker_hangs():
                self._wait_closed()  # the library's own limit then takes us out of the group
                continue
            self._poll()
            if self._look:
                self._look_around()
            if self._adrift():
                self._join_anew(f"not known to it for {self._settings.adrift_s} s")
        self._leave()

    def _look_around(self) -> None:
        """A list of all topics is what the library matches its subscription against, whichever call asked for it."""
        self._look = False
        with suppress(KafkaException):
            self._member.list_topics(timeout=LOOK_S)

    def _worker_hangs(self) -> bool:
        return self._clock.monotonic_s() - self._alive_s > self._settings.poll_interval_max_s

    def _adrift(self) -> bool:
        """Whether the group knew us once, and has not for long. The library finds no coordinator any more once
        brokers have answered that there are none, as they do when all have missed their heartbeats to the
        controller (librdkafka, issue 5301)."""
        now_s = self._clock.monotonic_s()
        if self._member.memberid():
            self._named_s = now_s
        return self._named_s is not None and now_s - self._named_s > self._settings.adrift_s

    def _join_anew(self, why: str) -> None:
        log.warning("joining the group anew", why=why)
        with suppress(KafkaException, RuntimeError, SystemError):  # it may be closed already
            self._leave()  # what was still assigned is lost by that
        self._lose_all()
        self._member = self._join()
        self._broken = False
        self._named_s = self._clock.monotonic_s()

    def _lose_all(self) -> None:
        """What a member that has failed could not report."""
        with self._changed:
            self._metadata = None
            shards = tuple(sorted(self._tenures))
            self._tenures.clear()
            self._revoked.clear()
            self._changed.notify_all()
        if shards:
            self._notify(Lost(shards))

    def _leave(self) -> None:
        """Poll for pending callbacks first. A library that is closing may be gone from the group already when
        it calls back, and a thread that asks it then waits for ever, and every thread of the interpreter with it
        (librdkafka, issue 4041; its Python binding keeps the lock)."""
        with suppress(KafkaException):
            self._member.unsubscribe()
        heard, give_up_s = -1, self._clock.monotonic_s() + HEAR_OUT_S
        while heard != self._news and self._clock.monotonic_s() < give_up_s:
            heard = self._news
            self._poll()
        self._closing = True
        try:
            self._member.close()
        finally:
            self._closing = False

    def _wait_closed(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, POLL_S)

    def _poll(self) -> None:
        try:
            message = self._member.poll(POLL_S)
        except KafkaException as error:
            if trouble.fatal(trouble.cause(error)):
                raise
            log.warning("group member", detail=str(error))
            self._wait_closed()
            return
        found = None if message is None else message.error()
        if found is not None and not trouble.no_topic(found):  # that no topic matches yet is no news
            log.warning("group member", detail=found.str())

    def _on_assign(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        """Called in every rebalance, often with nothing new."""
        self._news += 1
        member.incremental_assign([])
        shards = self._shards(partitions)
        with self._changed:
            self._metadata = None if self._closing else _metadata(member)
            for shard in shards:
                self._last_tenure += 1
                self._tenures[shard] = self._last_tenure
            self._changed.notify_all()
        if shards:
            self._notify(Assigned(shards))

    def _on_revoke(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        """The generation is a new one already; until the shards are released they stay ours in it. A worker that
        hangs loses them: what it has under way was begun in a generation that ends when we join again."""
        self._news += 1
        shards = self._shards(partitions)
        with self._changed:
            self._metadata = None if self._closing else _metadata(member)
            self._revoked.update(shards)
            self._notify(Revoked(shards))
            self._changed.notify_all()
            while self._revoked and not self._closed and not self._worker_hangs():
                self._changed.wait(POLL_S)
            held = tuple(sorted(self._revoked))
            self._revoked.clear()
            self._drop(shards)
        if held:
            self._notify(Lost(held))
        member.incremental_unassign([])

    def _on_lost(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        self._news += 1
        shards = self._shards(partitions)
        with self._changed:
            self._metadata = None
            self._drop(shards)
            self._changed.notify_all()
        self._notify(Lost(shards))
        member.incremental_unassign([])

    def _drop(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            self._tenures.pop(shard, None)

    def _shards(self, partitions: Sequence[TopicPartition]) -> tuple[Shard, ...]:
        targets = ((self._settings.names.target(part.topic), part.partition) for part in partitions)
        return tuple(sorted(Shard(target, str(number)) for target, number in targets if target is not None))


def _metadata(member: Consumer) -> bytes | None:
    """None where the library has forgotten it: it is leaving the group."""
    try:
        found: bytes = member.consumer_group_metadata()
        return found
    except RuntimeError:
        return None
