"""Appends drafts, and makes the answers to the client."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import structlog

from api.bodies.answers import SentMessage
from api.bridge import Bridge
from api.http.in_flight import Ticket
from api.http.problems import TOO_LARGE, Refusal, refused
from api.metrics import Metrics
from api.sending.appending import Appends, Outcome
from api.sending.drafts import Draft, ScheduleValidator
from api.services import Services
from api.topics import Target, TopicBook
from delayline.records.message import Header, first_id
from delayline.times import format_moment
from mq.contract import Append, Position
from mq.errors import PartitionUnknown, QueueError, QueueUnavailable, TopicUnknown

_log = structlog.get_logger("api")
_moment = lru_cache(1024)(format_moment)
"""Messages of a batch share their moments."""


class Sender:
    """The way from drafts to the queue: to the topic itself, or to the buffer where messages wait."""

    def __init__(
        self, services: Services, topics: TopicBook, bridge: Bridge, validator: ScheduleValidator, metrics: Metrics
    ) -> None:
        self._timeout_s = services.settings.append_timeout_s
        self._topics = topics
        self._appends = Appends(services.client, bridge)
        self._validator = validator
        self._metrics = metrics
        self._last: tuple[Sequence[Header], int, _Times | Refusal] = (), -1, _Times(0, "")

    async def target(self, topic: str, drafts: Sequence[Draft]) -> Target:
        """The topic, ready for these drafts. Raises TopicUnknown, QueueUnavailable, Refusal."""
        delayed = any(draft.directives for draft in drafts)
        return await self._topics.target(topic, delayed=delayed, named=_named(drafts))

    async def existing(self, topic: str, drafts: Sequence[Draft]) -> Target:
        """The topic as it is: nothing is made. Raises TopicUnknown, QueueUnavailable, Refusal."""
        return await self._topics.existing(topic, named=_named(drafts))

    def place(self, target: Target, draft: Draft) -> Append:
        """Where the draft goes. Raises Refusal: no such partition, too large for the topic."""
        delayed = bool(draft.directives)
        room = target.record_bytes_for(delayed=delayed)
        if len(draft.body) > room:
            detail = f"the record has {len(draft.body)} bytes, the topic takes {room}"
            raise refused(TOO_LARGE, "", "too-large", detail)
        partition = target.partition_for(draft.partition, draft.place_key)
        return Append(target.buffer if delayed else target.info.name, partition, draft.body)

    async def append(self, target: Target, appends: Sequence[Append]) -> list[Position]:
        """Store messages, all or none, and wait until they are durable. Raises QueueError."""
        positions = await self.store(target, appends)
        target.accepted.inc(len(positions))
        return positions

    async def store(self, target: Target, appends: Sequence[Append]) -> list[Position]:
        """The same for any records. Raises QueueError."""
        if len(appends) > 1 and target.info.down:
            _check_takes_all(target, appends)
        try:
            return await self._appends.store(appends, self._timeout_s)
        except TimeoutError as error:
            raise QueueUnavailable("no answer in time: it is unknown whether it was stored") from error
        except QueueError as error:
            self._topics.heed(target, error)
            if isinstance(error, TopicUnknown | PartitionUnknown) and _are_of_buffer(target, appends):
                raise QueueUnavailable("the buffer lacks what its topic has, for a moment") from error
            raise

    def hand_over(self, target: Target, appends: Sequence[Append], ticket: Ticket) -> None:
        """Let the queue store them without waiting. The ticket is held until it has, so that what waits in the queue
        stays bounded."""

        def ended(outcome: Outcome) -> None:
            ticket.release()
            self._confirm(target, len(appends), outcome)

        ticket.hold()
        self._appends.hand_over(appends, ended)

    def _confirm(self, target: Target, count: int, outcome: Outcome) -> None:
        if not isinstance(outcome, BaseException):
            target.accepted.inc(count)
            return
        self._topics.heed(target, outcome)
        self._metrics.unconfirmed_failures.labels(target.info.name).inc(count)
        _log.warning("unconfirmed messages not stored", topic=target.info.name, messages=count, error=str(outcome))

    def sent(self, topic: str, drafts: Sequence[Draft], positions: Sequence[Position]) -> list[SentMessage | Refusal]:
        """What stored messages are to their sender. Hot: once per message; those of a batch share their times, and so
        do those of a group commit."""
        sent: list[SentMessage | Refusal] = []
        last = self._last
        for draft, (_, name, offset, at_ms) in zip(drafts, positions, strict=True):
            partition, accepted_at, directives = partition_label(name), _moment(at_ms), draft.directives
            if not directives:
                sent.append(SentMessage(None, topic, partition, "delivered", accepted_at, None))
                continue
            if directives is not last[0] or at_ms != last[1]:
                last = directives, at_ms, self._times(directives, at_ms)
            if isinstance(times := last[2], Refusal):
                sent.append(times)
                continue
            due_ms, due_at = times
            message_id = first_id(topic, name, offset, due_ms)
            sent.append(SentMessage(message_id, topic, partition, "accepted", accepted_at, due_at, draft.own_id))
        if not isinstance(last[2], Refusal):
            self._last = last
        return sent

    def _times(self, directives: Sequence[Header], accepted_at_ms: int) -> "_Times | Refusal":
        try:
            due_ms = self._validator.schedule(directives, accepted_at_ms).due_ms
        except Refusal as refusal:
            return refusal
        return _Times(due_ms, _moment(due_ms))


class _Times(NamedTuple):
    """When a message is due, and that moment as documents show it."""

    due_ms: int
    due_at: str


def _check_takes_all(target: Target, appends: Sequence[Append]) -> None:
    """Where not all of several partitions take something, none gets anything: a purge that is refused would have
    ended the messages of the others. Raises QueueUnavailable."""
    if down := sorted({name for _, name, _ in appends} & target.info.down):
        raise QueueUnavailable(f"partition {down[0]} of {target.info.name} has no broker now; nothing was stored")


def _are_of_buffer(target: Target, appends: Sequence[Append]) -> bool:
    """Whether all go to the buffer, and the topic itself has their partitions."""
    return all(topic == target.buffer and name in target.info.partitions for topic, name, _ in appends)


def _named(drafts: Sequence[Draft]) -> set[int | str]:
    """Partitions that are asked for. Hot: once per request."""
    return {draft.partition for draft in drafts if draft.partition is not None}


@lru_cache(1024)
def partition_label(name: str) -> int | str:
    """A partition as documents show it: a number where it is one. Hot: once per message."""
    return int(name) if name.isdecimal() else name
