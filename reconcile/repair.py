"""Lost messages are put into the log again, as the reconcile job's plan names them.

A repair first claims to be the only writer (`mq.contract.Queue.claim`), and then looks; it sends under that claim. On
Kafka the claim is a transactional id of the installation: claiming it ends what an earlier repair had begun, on
whatever machine that is, and from then on the brokers refuse whatever it sends. What it has sent before is in the
audit, all of it, because a re-append and the outcome row of what it replaces are one transaction; and the audit is
read to its end, committed records only, after the claim. So of two repairs the second one sees what the first one has
sent and sends the rest, and the first one ends with an error. A repair that was killed leaves nothing behind that the
next one would have to wait for. The embedded queue belongs to one process: a second one cannot open it. On RocketMQ a
second one does not get the name while the first one is connected; after that its claim first finishes what that one
had written down, so that what it sees is complete.

For each message, in this order:

    the audit since the plan   has an outcome of its record by now: nothing is done
    its record in the buffer   must still be there, and be the one meant, by the service's own reading
    the cursor of its shard    must have passed it: what has not been read is not lost
    one atomic append          a re-append under the message's own id, which names the record that it replaces, and
                               that record's outcome row (superseded, reason `repair`)

A message that was to go on in another record that does not exist has an outcome already. The record before still
holds it, as long as that record is kept, and it goes on from there with the time that it was moved to:

    its shard's log            from that record to the end, must have no re-append that carries it on: else nothing is
                               done. Read after the claim, and whole: what is open there is waited for
    one append                 a re-append under the message's own id, which names the record before; its row is there

So a plan that is carried out twice does nothing the second time, the next run of the job finds one end of each
record, and a message that waits after all is not delivered twice: reading the re-append, its shard gives it up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from delayline.buffer.cursor import Cursor
from delayline.buffer.facts import MESSAGE, fact_of, message_id
from delayline.buffer.outcome import REPAIR, AuditRecord, AuditRow, Outcome, decode_audit, encode_audit, spread
from delayline.buffer.record import Message, RulesChange, decode_value, encode_reappend, read
from delayline.clock import Clock
from delayline.errors import MalformedRecord, UnknownFormat
from delayline.names import Names
from delayline.records.headers import REPLACES, RULES
from delayline.records.message import Key, Shard
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, Claim, LogRecord, Queue
from mq.errors import PartitionUnknown, TopicUnknown
from reconcile.errors import CannotJudge, OtherCluster
from reconcile.logic.plan import Cluster
from reconcile.report.repair_plan import LostMessage, LostSuccessor, RepairPlan

SETTLED_S = 30.0
"""Longer than a transaction whose producer is dead stays open."""
READ_RECORDS = 1000


class Verdict(StrEnum):
    """What is, or was, to be done about a message."""

    AGAIN = "send again"
    SENT = "sent again"
    ENDED = "has ended"
    WAITS = "waits"
    LOST = "payload lost"
    OTHER = "not found"
    UNKNOWN = "time lost"


UNREPAIRABLE = frozenset({Verdict.LOST, Verdict.OTHER, Verdict.UNKNOWN})


class LostRecord(NamedTuple):
    """The record of a lost message, as it is in the buffer. `due_ms` is when it is to be due; `has_row`: the
    outcome of the record is known."""

    shard: Shard
    key: Key
    value: bytes
    accepted_ms: int
    owner_epoch: int
    due_ms: int
    has_row: bool = False


class RepairStep(NamedTuple):
    """A message, the verdict and why. `found` where it is to be sent again."""

    message: LostMessage | LostSuccessor
    verdict: Verdict
    why: str = ""
    found: LostRecord | None = None


class Repair:
    """`rules_of` are the configured rules of a topic. To `send`, first `claim`, and `look` again."""

    def __init__(self, queue: Queue, kind: str, names: Names, rules_of: Callable[[str], Rules], clock: Clock) -> None:
        self._queue = queue
        self._kind = kind
        self._names = names
        self._rules_of = rules_of
        self._clock = clock
        self._claimed: Claim | None = None
        self._looked = False

    def claim(self) -> None:
        """Be the only one who sends: an earlier one cannot any more. Raises QueueUnavailable."""
        self._claimed, self._looked = self._queue.claim(REPAIR), False

    def look(self, plan: RepairPlan) -> list[RepairStep]:
        """What is to be done now; nothing is. Raises OtherCluster, CannotJudge, QueueError, UnknownFormat."""
        here = Cluster(self._kind, self._queue.identity(), self._names.namespace)
        if plan.cluster != here:
            raise OtherCluster(f"the plan is for {_shown(plan.cluster)}, this is {_shown(here)}")
        ended = self._ended_since(plan)
        self._looked = True
        steps = [self._step(message, ended.get(_place(message))) for message in plan.messages]
        carried = self._carried_on(plan.successors)
        return [*steps, *(self._successor(one, carried) for one in plan.successors)]

    def send(self, step: RepairStep) -> RepairStep:
        """Send it again. Raises ClaimLost (another repair has begun since, and sees what this one has sent) and
        QueueError; whether it was written is then shown by the next look."""
        assert step.found is not None, "only what is to be sent again"
        assert self._claimed is not None, "only the process that has claimed it"
        assert self._looked, "what was seen before the claim another one may have sent since"
        message, (shard, key, value, accepted_ms, epoch, due_ms, has_row) = step.message, step.found
        body = encode_reappend(value, key, message_id(shard, key, decode_value(value)[0]), due_ms)
        again = Append(self._names.buffer(shard.topic), shard.partition, body)
        if has_row:
            self._claimed.append([again])
            return RepairStep(message, Verdict.SENT)
        row = AuditRow(key.offset, message.id, key.due_ms, accepted_ms, Outcome.SUPERSEDED, message.id, REPAIR)
        (audit_row,) = encode_audit(shard, epoch, self._clock.now_ms(), [row])
        audit = self._names.audit
        partition = audit_partition(shard, self._queue.topic(audit).partitions)
        self._claimed.append([again, Append(audit, partition, audit_row)])
        return RepairStep(message, Verdict.SENT)

    # --- the audit since the plan

    def _ended_since(self, plan: RepairPlan) -> Mapping[tuple[Shard, int], str]:
        """Outcomes of the plan's records that have come since."""
        wanted = {_place(message) for message in plan.messages}
        ended = {}
        partitions = self._queue.topic(self._names.audit).partitions
        if gone := sorted(plan.audit.keys() - set(partitions)):
            raise CannotJudge(
                f"{self._names.audit}, partition {gone[0]}, is not there now: it is unknown what has ended since"
            )
        for name in partitions:
            for record in self._audit(name, plan.audit.get(name)):
                header, rows = self._decoded(name, record)
                shard = Shard(header.topic, header.shard)
                ended.update({(shard, row.offset): _outcome(row) for row in rows if (shard, row.offset) in wanted})
        return ended

    def _decoded(self, name: str, record: LogRecord) -> tuple[AuditRecord, list[AuditRow]]:
        """Raises CannotJudge."""
        try:
            return decode_audit(decode_body(record.body).value or b"")
        except (UnknownFormat, MalformedRecord) as error:
            raise CannotJudge(
                f"{self._names.audit}, partition {name}, offset {record.offset}: {error}; it may hold the end "
                "of a message of the plan: let the job write a new plan"
            ) from error

    def _audit(self, name: str, start: int | None) -> Iterator[LogRecord]:
        """From the plan's position on, to its end; all of a partition that there was not yet. An outcome that cannot
        be read yet, as of an earlier repair, would be taken for none. Raises CannotJudge."""
        topic = self._names.audit
        self._check_settled(topic, name, "outcomes")
        first, end = self._queue.offsets(topic, name)
        offset = first if start is None else start
        if not first <= offset <= end:
            raise CannotJudge(
                f"{topic}, partition {name}, holds {first} to {end} and the plan has read to {offset}: what has "
                "ended since is unknown; let the job write a new plan"
            )
        while records := self._queue.read(topic, name, offset, READ_RECORDS):
            yield from records
            offset = records[-1].offset + 1

    def _check_settled(self, topic: str, name: str, what: str) -> None:
        """Raises CannotJudge."""
        if not self._queue.is_stable(topic, name, SETTLED_S):
            raise CannotJudge(
                f"{topic}, partition {name}: a transaction has been open for {SETTLED_S:.0f} s, and what it hides "
                f"may be {what}; find its producer, or abort it, and repeat this"
            )

    # --- what was to go on in another record

    def _successor(self, lost: LostSuccessor, carried: Mapping[tuple[Shard, Key], int]) -> RepairStep:
        shard, offset = _place(lost)
        if (by := carried.get((shard, Key(lost.due_ms, offset)))) is not None:
            return RepairStep(lost, Verdict.ENDED, f"it goes on at offset {by}")
        if lost.moves_to_ms is None:
            return RepairStep(lost, Verdict.UNKNOWN, "when it was to be due stood in the lost record alone")
        step = self._step(lost, None)
        if step.found is None:
            return step
        return step._replace(found=step.found._replace(due_ms=lost.moves_to_ms, has_row=True))

    def _carried_on(self, lost: Sequence[LostSuccessor]) -> dict[tuple[Shard, Key], int]:
        """What re-appends behind these records carry on, and at which offset. Raises CannotJudge."""
        firsts: dict[Shard, int] = {}
        for shard, offset in map(_place, lost):
            firsts[shard] = min(offset, firsts.get(shard, offset))
        found = {}
        for shard, first in firsts.items():
            for record in self._log(shard, first):
                if REPLACES not in record.body:
                    continue
                meaning = read(record.body, record.appended_at_ms, DEFAULT_RULES)
                if isinstance(meaning, Message) and meaning.replaces is not None:
                    found[shard, meaning.replaces] = record.offset
        return found

    def _log(self, shard: Shard, offset: int) -> Iterator[LogRecord]:
        """Its buffer from there on, as far as it is kept, to the end; nothing where there is none."""
        topic = self._names.buffer(shard.topic)
        try:
            first, _ = self._queue.offsets(topic, shard.partition)
        except (TopicUnknown, PartitionUnknown):
            return
        self._check_settled(topic, shard.partition, "re-appends")
        offset = max(offset, first)
        while records := self._queue.read(topic, shard.partition, offset, READ_RECORDS):
            yield from records
            offset = records[-1].offset + 1

    # --- the record

    def _step(self, message: LostMessage | LostSuccessor, ended: str | None) -> RepairStep:
        if ended is not None:
            return RepairStep(message, Verdict.ENDED, ended)
        shard, topic = _place(message)[0], self._names.buffer(message.topic)
        try:
            first, end = self._queue.offsets(topic, shard.partition)
        except (TopicUnknown, PartitionUnknown) as error:
            return RepairStep(message, Verdict.LOST, str(error))
        if message.offset < first:
            return RepairStep(message, Verdict.LOST, f"the buffer begins at offset {first}")
        records = self._queue.read(topic, shard.partition, message.offset, 1) if message.offset < end else ()
        if not records or records[0].offset != message.offset:
            return RepairStep(message, Verdict.OTHER, "there is no record at its place")
        return self._of_record(message, shard, records[0])

    def _of_record(self, message: LostMessage | LostSuccessor, shard: Shard, record: LogRecord) -> RepairStep:
        cursor = self._queue.read_cursor_unfenced(shard)
        if cursor is None or cursor.next_offset <= message.offset:
            return RepairStep(message, Verdict.WAITS, "its shard has not come so far")
        for rules in self._possible_rules(shard, record.offset, cursor):
            fact = fact_of(shard, record.offset, record.appended_at_ms, record.body, rules)
            if fact.kind != MESSAGE:
                return RepairStep(message, Verdict.OTHER, f"at its place stands a record of kind {fact.kind}")
            if (fact.id, fact.due_ms) == (message.id, message.due_ms):
                return self._again(message, shard, record, rules, cursor.owner_epoch)
        return RepairStep(message, Verdict.OTHER, f"at its place stands {fact.id}")

    @staticmethod
    def _again(
        message: LostMessage | LostSuccessor, shard: Shard, record: LogRecord, rules: Rules, owner_epoch: int
    ) -> RepairStep:
        fact = fact_of(shard, record.offset, record.appended_at_ms, record.body, rules)
        meaning = read(record.body, record.appended_at_ms, rules)
        assert isinstance(meaning, Message), "that is its kind"
        meta, _ = decode_value(meaning.value)
        if meta is not None and meta.dead_code is not None:
            return RepairStep(message, Verdict.OTHER, f"it cannot be delivered: {meta.dead_code}")
        key = Key(meaning.due_ms, record.offset)
        return RepairStep(
            message,
            Verdict.AGAIN,
            "",
            LostRecord(shard, key, meaning.value, fact.accepted_ms, owner_epoch, key.due_ms),
        )

    def _possible_rules(self, shard: Shard, offset: int, cursor: Cursor) -> Iterator[Rules]:
        """Under which the record may have been read: the likely ones first, and before them in the log, if those give
        it another id, what rules records there are."""
        yield cursor.rules
        yield self._rules_of(shard.topic)
        yield DEFAULT_RULES
        yield from self._rules_in_log(shard, offset)

    def _rules_in_log(self, shard: Shard, end: int) -> list[Rules]:
        """Latest first."""
        topic, found = self._names.buffer(shard.topic), []
        offset, _ = self._queue.offsets(topic, shard.partition)
        while offset < end and (records := self._queue.read(topic, shard.partition, offset, READ_RECORDS)):
            for record in records:
                meaning = read(record.body, record.appended_at_ms, DEFAULT_RULES) if RULES in record.body else None
                if isinstance(meaning, RulesChange):
                    found.append(meaning.rules)
            offset = records[-1].offset + 1
        return found[::-1]


def audit_partition(shard: Shard, audit: Sequence[str]) -> str:
    """The partition of the audit that has the rows of a shard: on RocketMQ of its own broker."""
    broker = shard.partition.rpartition(":")[0]
    beside = [name for name in audit if name.rpartition(":")[0] == broker]
    return beside[spread(shard, len(beside))]


def _place(message: LostMessage | LostSuccessor) -> tuple[Shard, int]:
    return Shard(message.topic, str(message.shard)), message.offset


def _outcome(row: AuditRow) -> str:
    return row.outcome.value if row.reason is None else f"{row.outcome.value} ({row.reason})"


def _shown(cluster: Cluster) -> str:
    return f"{cluster.kind} {cluster.id}, namespace {cluster.namespace!r}"
