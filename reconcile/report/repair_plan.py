"""repair-plan.json: messages that are missing, for `delayline reconcile repair`. The job itself sends nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType

import msgspec

from reconcile.errors import BadInput
from reconcile.logic import documents
from reconcile.logic.ledger import NO_OUTCOME, NOT_RE_APPENDED
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.plan import Cluster
from reconcile.report.summary import Finding

REPAIR_PLAN_VERSION = 1

Place = tuple[str, int, int]
"""Topic, shard and offset."""

MESSAGES_MAX = 10_000
"""In one plan: if more is lost, look at why before anything is sent again. The next run lists the next
ones."""


class LostMessage(msgspec.Struct, frozen=True):
    """A missing message, and the record that holds it: partition `shard` of the topic's buffer, as the queue calls
    it, at `offset`."""

    id: str
    topic: str
    shard: int | str
    offset: int
    due_ms: int  # of the record at that place
    accepted_ms: int | None  # None: not looked up, the record has it


class LostSuccessor(msgspec.Struct, frozen=True):
    """A message that was to go on in another record, which does not exist; and the record before that, which holds
    it. `moves_to_ms`: when it is due from then on; None: that stood in the lost record alone."""

    id: str
    topic: str
    shard: int | str
    offset: int
    due_ms: int  # of the record at that place
    moves_to_ms: int | None


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`audit`: by partition, the offset behind the last audit record that the run has read: what is there or behind
    may hold ends of these messages meanwhile. `successors`: messages that were to go on in another record. `more`:
    what is missing and not listed: too many, or no message, or one whose record has no outcome and goes on in another
    one."""

    v: int = REPAIR_PLAN_VERSION
    cluster: Cluster
    run: int
    at_ms: int
    audit: dict[str, int]
    messages: list[LostMessage]
    successors: list[LostSuccessor] = []
    more: int


def repair_plan(
    cluster: Cluster,
    run: int,
    at_ms: int,
    audit: dict[int, int],
    missing: Iterable[Finding],
    total: int,
    moves: Mapping[Place, int | None] = MappingProxyType({}),
    partitions: Partitions = NUMBERS,
) -> RepairPlan:
    """Of the first `MESSAGES_MAX` findings of what is `missing`, those that are messages; `total`: how many findings
    there are. `moves`: of the records that hold lost successors, when those are due."""
    listed = list(islice(missing, MESSAGES_MAX))
    messages = [lost for finding in listed if (lost := _lost(finding, partitions)) is not None]
    successors = [
        LostSuccessor(
            finding.id,
            finding.topic,
            partitions.outward(place_of(finding)[1]),
            finding.offset,
            finding.due_ms,
            moves.get(place_of(finding)),
        )
        for finding in listed
        if is_successor(finding) and finding.id is not None and finding.due_ms is not None
    ]
    return RepairPlan(
        cluster=cluster,
        run=run,
        at_ms=at_ms,
        audit={partitions.name(number): offset for number, offset in audit.items()},
        messages=messages,
        successors=successors,
        more=max(total - len(messages) - len(successors), 0),
    )


def is_successor(finding: Finding) -> bool:
    """Whether what is missing is the record that was to carry the message on: its own one has an outcome."""
    return (finding.detail or "").endswith(NOT_RE_APPENDED)


def place_of(finding: Finding) -> Place:
    """Of one whose shard is the ledger's number."""
    assert isinstance(finding.shard, int), "it has not been called otherwise yet"
    return finding.topic, finding.shard, finding.offset


def _lost(finding: Finding, partitions: Partitions) -> LostMessage | None:
    """None where it is no message, or not to be sent again: by its record another one carries it on, or another
    record carries on its record."""
    if finding.id is None or finding.due_ms is None or finding.detail not in (None, NO_OUTCOME):
        return None
    topic, number, offset = place_of(finding)
    return LostMessage(finding.id, topic, partitions.outward(number), offset, finding.due_ms, finding.accepted_ms)


def check_listed_once(plan: RepairPlan) -> None:
    """No run lists a record twice, but a person may have edited the plan, and it would be sent as often. Raises
    BadInput."""
    listed: list[LostMessage | LostSuccessor] = [*plan.messages, *plan.successors]
    places = Counter((one.topic, one.shard, one.offset) for one in listed)
    for (topic, shard, offset), count in places.items():
        if count > 1:
            raise BadInput(f"the record at offset {offset} of {topic}, shard {shard}, is listed {count} times")


def encode_repair_plan(plan: RepairPlan) -> bytes:
    return documents.encode_for_people(plan)


def decode_repair_plan(data: bytes, name: str = "a repair plan") -> RepairPlan:
    """Raises BadInput."""
    return documents.decode(data, RepairPlan, name, REPAIR_PLAN_VERSION)
