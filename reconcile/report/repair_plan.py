"""repair-plan.json: messages that are missing, for `delayline reconcile repair`. The job itself sends nothing."""

from collections.abc import Iterable
from itertools import islice

import msgspec

from reconcile import documents
from reconcile.ledger import NO_OUTCOME
from reconcile.plan import Cluster
from reconcile.report.summary import Finding

REPAIR_PLAN_VERSION = 1

MESSAGES_MAX = 10_000
"""In one plan: whoever has lost more should look at why before anything is sent again. The next run lists the next
ones."""


class LostMessage(msgspec.Struct, frozen=True):
    """A missing message, and the record that holds it: partition `shard` of the topic's buffer, at `offset`."""

    id: str
    topic: str
    shard: int
    offset: int
    due_ms: int  # of the record at that place
    accepted_ms: int | None  # None: not looked up, the record says it


class RepairPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`audit`: by partition, the offset behind the last audit record that the run has read: what stands there or
    behind may tell of these messages meanwhile. `more`: missing messages that are not listed: too many, or not to be
    sent again, because their record has an outcome or goes on in another one."""

    v: int = REPAIR_PLAN_VERSION
    cluster: Cluster
    run: int
    at_ms: int
    audit: dict[int, int]
    messages: list[LostMessage]
    more: int


def repair_plan(
    cluster: Cluster, run: int, at_ms: int, audit: dict[int, int], missing: Iterable[Finding], total: int
) -> RepairPlan:
    """Of the first `MESSAGES_MAX` findings of what is `missing`, those that are messages; `total`: how many findings
    there are."""
    messages = [lost for finding in islice(missing, MESSAGES_MAX) if (lost := _lost(finding)) is not None]
    return RepairPlan(
        cluster=cluster, run=run, at_ms=at_ms, audit=audit, messages=messages, more=max(total - len(messages), 0)
    )


def _lost(finding: Finding) -> LostMessage | None:
    """None where it is no message, or not to be sent again: its record says that another one carries it on, or
    another one says so of the record."""
    if finding.id is None or finding.due_ms is None or finding.detail not in (None, NO_OUTCOME):
        return None
    return LostMessage(finding.id, finding.topic, finding.shard, finding.offset, finding.due_ms, finding.accepted_ms)


def encode_repair_plan(plan: RepairPlan) -> bytes:
    return documents.encode_for_people(plan)


def decode_repair_plan(data: bytes, name: str = "a repair plan") -> RepairPlan:
    """Raises BadInput."""
    return documents.decode(data, RepairPlan, name, REPAIR_PLAN_VERSION)
