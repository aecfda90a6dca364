"""A claim: the only process that appends under a name, by the same means by which a worker owns its shards.

It has a session and a journal on each broker (docs/adr/0023). The name belongs to the session that has claimed it
there, until the session releases it or its broker does not list it any more. RocketMQ cannot end the connection of an
earlier holder, so a name that is held is refused. A new holder first finishes the step that the last one had written
down and not carried out; so two repairs never send the same message again, and none is left half done.

Records of one append are a step of the broker that they are for: written down first, then stored queue by queue in
the order in which they were given.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event
from uuid import uuid4

from delayline.buffer.cursor import Cursor
from delayline.errors import MalformedRecord, UnknownFormat
from delayline.process import threads
from delayline.records.message import Shard
from mq.contract import Append
from mq.errors import (
    ClaimLost,
    CommitError,
    NotDoneHere,
    QueueError,
    QueueUnavailable,
    RecordTooLarge,
)
from mq.rocketmq.batches import QueueBatch
from mq.rocketmq.body import MEMBERS_BYTES_MAX, member_bytes, to_member
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.naming import Place
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.parts import Part
from mq.rocketmq.session import Session
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.sink import RocketmqSink
from rocketmq.client.client import Client
from rocketmq.errors import InvalidRequest, RocketmqError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue

BEAT_S = 10.0
"""A broker forgets a session that is silent for two minutes."""


class RocketmqClaim:
    """One thread at a time. `close` it."""

    def __init__(
        self,
        settings: RocketmqSettings,
        name: str,
        brokers: Sequence[str],
        client: Client,
        cluster: RocketmqCluster,
        ownership: Ownership,
        steps: RocketmqSink,
    ) -> None:
        """On each of the `brokers`, whose journals of the name are there. Raises QueueUnavailable."""
        self._settings, self._name, self._client = settings, name, client
        self._cluster, self._ownership, self._steps = cluster, ownership, steps
        self._writer = f"claim-{uuid4().hex}"
        self._topic = settings.wire_names.claim(name)
        self.sessions: dict[str, Session] = {}
        self._held: dict[str, Holding] = {}
        self._failure = ""
        self._closing = Event()
        try:
            # In one order for all: of two that begin at once one gets nothing, and not each of them a part.
            for broker in sorted(brokers):
                self._take(broker)
        except BaseException:
            self.close()
            raise
        self._thread = threads.lasting("rocketmq-claim", self._beat, self._closing)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        for holding in self._held.values():
            self._ownership.release(holding)
        for session in self.sessions.values():
            session.leave()

    # --- taking it

    def _take(self, broker: str) -> None:
        journal = Place(broker, 0).of(self._topic)
        try:
            session = self.sessions[broker] = self._session(broker)
            if not self._ownership.is_free(journal, session):
                raise QueueUnavailable("another process has it, and is connected still: let it end, or end it")
            shard = Shard(self._settings.wire_names.back(self._topic), Place(broker, 0).name)
            self._held[broker] = self._ownership.take(shard, journal, session, lambda _: True)
        except (QueueError, UnknownFormat, RocketmqError) as error:
            raise QueueUnavailable(f"{self._name!r} is not claimed on {broker}: {error}") from error

    def _session(self, broker: str) -> Session:
        group = self._settings.claim_group(self._name)
        return Session(self._settings, self._client, broker, self._writer, _nothing, group)

    def _beat(self) -> None:
        while not self._closing.wait(BEAT_S):
            for session in self.sessions.values():
                with suppress(RocketmqError):  # an append fails where the session has ended
                    session.beat()

    # --- appending

    def append(self, records: Sequence[Append]) -> None:
        """See `mq.contract.Claim`. Raises NotDoneHere for records of several brokers as well."""
        if self._failure:
            raise QueueUnavailable(f"the claim of {self._name!r} has failed ({self._failure}): claim it again")
        queues = self._members(records)
        holding = self._holding({queue.broker for queue in queues})
        cursor = Cursor(topic_id=bytes(16), owner_epoch=holding.term, writer=self._writer)
        rounds = [[QueueBatch(queue, members)] for queue, members in queues.items()]
        part = Part(holding, rounds, cursor.encode())
        try:
            with holding.lock:
                self._steps.carry_out([part])
        except CommitError as error:
            part.failure = error
        if part.failure is not None:
            self._failure = str(part.failure) or type(part.failure).__name__
            raise self._error(holding) from part.failure

    def _members(self, records: Sequence[Append]) -> Mapping[Queue, list[BatchMember]]:
        """By queue. Raises QueueError."""
        found: dict[Queue, list[BatchMember]] = {}
        for topic, partition, body in records:
            try:
                member = to_member(body)
            except (InvalidRequest, MalformedRecord) as error:
                raise RecordTooLarge(f"a record for {topic}: {error}") from error
            found.setdefault(self._cluster.queue(topic, partition), []).append(member)
        if any(sum(map(member_bytes, members)) > MEMBERS_BYTES_MAX for members in found.values()):
            raise RecordTooLarge(f"more than {MEMBERS_BYTES_MAX} bytes for one queue")
        return found

    def _holding(self, brokers: set[str]) -> Holding:
        """Raises NotDoneHere, QueueUnavailable."""
        if len(brokers) != 1:
            raise NotDoneHere("records of several brokers are not stored in one step")
        (broker,) = brokers
        if (holding := self._held.get(broker)) is None:
            raise QueueUnavailable(f"{broker} has come since {self._name!r} was claimed: claim it again")
        if not holding.is_ours:
            raise self._lost(holding)
        return holding

    def _error(self, holding: Holding) -> QueueError:
        """Of a step that has failed: it may have happened."""
        if not holding.is_ours:
            return self._lost(holding)
        return QueueUnavailable(f"appending under {self._name!r}: {self._failure}")

    def _lost(self, holding: Holding) -> QueueError:
        """The session has ended; another may have claimed the name since."""
        self._failure = self._failure or f"the session with {holding.journal.broker} has ended"
        if self._ownership.has_gone_on(holding):
            return ClaimLost(f"{self._name!r} has been claimed by another process since")
        return QueueUnavailable(f"appending under {self._name!r}: {self._failure}")


def _nothing() -> None:
    """Who else is in the group is asked when it matters."""
