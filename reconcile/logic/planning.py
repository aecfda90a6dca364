"""What a run reads. Pure: from what the queue holds, and what the last run has left.

    Held, Manifest -> Plan     which part of the audit; what is lost of it; which topics cannot be read any more
    Plan, marks    -> Reads    which part of the buffers
    Plan, Reads    -> Shards   where each shard stands behind this run

Nothing is passed over in silence: what the queue has deleted before it was read is a loss by name, and what is not
what it was (a topic deleted and made again, a log that ends before what has been read of it) is set aside.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType

from msgspec.structs import replace

from reconcile.logic.manifest import Distrusted, Manifest, Marks, Plan, Reads, Shard, Topic
from reconcile.logic.plan import Buffer, Cluster, Held, Mark, Range, Read, Skip, Unreadable

RECREATED = "recreated"  # deleted and made again: offsets mean other records now
DELETED = "deleted"  # gone, with messages of unknown outcome
TRUNCATED = "truncated"  # it ends before what has been read of it

AUDIT = "audit "
"""In front of a reason: it is the audit's, and so every topic's."""

NOTHING = Topic(topic_id="")


def plan_run(cluster: Cluster, held: Held, previous: Manifest | None) -> Plan:
    """The plan of the run after `previous`, or of the first one."""
    run = previous.run + 1 if previous else 1
    aside = _aside(held, previous)
    if aside.keys() >= {*held.buffers, *(previous.topics if previous else ())} and aside:
        return Plan(run=run, cluster=cluster, held=held, aside=aside)
    ends = previous.audit if previous else {}
    ranges = {
        partition: Range(max(ends.get(partition, 0), kept.start), kept.end) for partition, kept in held.audit.items()
    }
    lost = {
        partition: Range(ends.get(partition, 0), kept.start)
        for partition, kept in held.audit.items()
        if kept.start > ends.get(partition, 0)
    }
    return Plan(run=run, cluster=cluster, held=held, audit=ranges, lost=lost, aside=aside)


def _aside(held: Held, previous: Manifest | None) -> dict[str, str]:
    if previous is None:
        return {}
    if trouble := _audit_trouble(held, previous):
        return dict.fromkeys(sorted({*held.buffers, *previous.topics}), f"{AUDIT}{trouble}")
    reasons = {
        name: topic.aside or _trouble(held.buffers.get(name), topic) for name, topic in previous.topics.items()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _audit_trouble(held: Held, previous: Manifest) -> str | None:
    if held.audit_topic_id != previous.audit_topic_id:
        return RECREATED
    return _cut(previous.audit, held.audit)


def _trouble(buffer: Buffer | None, topic: Topic) -> str | None:
    if not topic.topic_id:
        return None  # only the audit spoke of it
    if buffer is None:
        return DELETED if any(map(_owes, topic.shards.values())) else None
    if buffer.topic_id != topic.topic_id:
        return RECREATED
    return _cut({number: shard.position for number, shard in topic.shards.items()}, buffer.shards)


def _cut(positions: Mapping[int, int], held: Mapping[int, Range]) -> str | None:
    """A log cannot end before what was read of it, unless its brokers have lost that."""
    if all(number in held and position <= held[number].end for number, position in positions.items()):
        return None
    return TRUNCATED


def _owes(shard: Shard) -> bool:
    mark = shard.marks.last
    return shard.position > shard.start and (mark is None or mark.next < shard.position or mark.pending != 0)


def can_be_read(plan: Plan, held: Held) -> bool:
    """Whether what a run that has failed wanted to read is still there."""
    if held.audit_topic_id != plan.held.audit_topic_id:
        return False
    if any(number not in held.audit or part.start < held.audit[number].start for number, part in plan.audit.items()):
        return False
    return all(
        name in held.buffers and _still_holds(buffer, held.buffers[name])
        for name, buffer in plan.held.buffers.items()
        if name not in plan.aside
    )


def _still_holds(planned: Buffer, held: Buffer) -> bool:
    if planned.topic_id != held.topic_id:
        return False
    return all(
        number in held.shards and kept.start >= held.shards[number].start for number, kept in planned.shards.items()
    )


def readable(plan: Plan) -> dict[str, Buffer]:
    """The buffers that the run reads."""
    return {name: buffer for name, buffer in sorted(plan.held.buffers.items()) if name not in plan.aside}


def fresh_shards(plan: Plan, previous: Manifest | None) -> dict[str, list[int]]:
    """Shards that are not read on from where the last run ended: the queue has to answer which rules hold there."""
    found = {
        name: [
            number
            for number, kept in sorted(buffer.shards.items())
            if (known := _known(previous, name).shards.get(number)) is None or known.position < kept.start
        ]
        for name, buffer in readable(plan).items()
    }
    return {name: shards for name, shards in found.items() if shards}


def _known(previous: Manifest | None, topic: str) -> Topic:
    return previous.topics.get(topic, NOTHING) if previous else NOTHING


MarksRead = Mapping[str, Mapping[int, Iterable[Mark]]]
"""By topic and shard: at least the last two marks in the part of the audit that the run reads."""


SkipsRead = Mapping[str, Mapping[int, Iterable[Skip]]]
"""By topic and shard: what was skipped, from the run's part of the audit."""


def plan_reads(
    plan: Plan,
    previous: Manifest | None,
    found: MarksRead,
    rules: Mapping[str, Mapping[int, str]],
    audit_first_ms: Mapping[int, int],
    skips: SkipsRead = MappingProxyType({}),
) -> Reads:
    """`rules` of the fresh shards, by topic. A shard with a mark behind the end of its buffer is set aside until the
    next run: nothing more of it is read, and its marks of this run are not believed yet."""
    reads: list[Read] = []
    marks: dict[str, dict[int, Marks]] = {}
    distrusted: dict[str, dict[int, Distrusted]] = {}
    for name, buffer in readable(plan).items():
        known = _known(previous, name)
        marks[name] = {}
        for number, kept in buffer.shards.items():
            before = known.shards[number].marks if number in known.shards else Marks()
            believed, doubt = _believed(before, found.get(name, {}).get(number, ()), kept.end)
            marks[name][number] = believed
            if doubt:
                distrusted.setdefault(name, {})[number] = doubt
        for number, kept in sorted(buffer.shards.items()):
            is_doubted = number in distrusted.get(name, {})
            believed = Marks() if is_doubted else marks[name][number]
            read = _read(name, number, kept, known, believed, rules.get(name, {}))
            earlier = known.shards[number].skips if number in known.shards else []
            reads.append(replace(read, skips=[*earlier, *skips.get(name, {}).get(number, ())]))
    first_ms = dict(audit_first_ms)
    return Reads(run=plan.run, reads=reads, marks=marks, distrusted=distrusted, audit_first_ms=first_ms)


def is_possible(mark: Mark, end: int) -> bool:
    """A shard cannot have read more than its buffer holds; a mark without numbers has -1."""
    return 0 <= mark.next <= end


def _believed(before: Marks, found: Iterable[Mark], end: int) -> tuple[Marks, Distrusted | None]:
    """What this run goes by, and why the rest waits for the next one."""
    found = list(found)
    bad = next((mark for mark in (before.last, *found) if mark is not None and not is_possible(mark, end)), None)
    if bad is None:
        return last_marks(before, found), None
    known = last_marks(Marks(), [mark for mark in (before.last, before.before) if mark and is_possible(mark, end)])
    later = last_marks(known, [mark for mark in found if is_possible(mark, end)])
    return known, Distrusted(bad, end, later)


def last_marks(known: Marks, staged: Iterable[Mark]) -> Marks:
    """The two that reach furthest. A mark stays true for ever: a later one only reaches further."""
    every = {mark for mark in chain((known.last, known.before), staged) if mark is not None}
    ordered = sorted(every, key=lambda mark: (mark.next, mark.low_ms, mark.audit_offset), reverse=True)
    return Marks(*ordered[:2])


def _read(topic: str, number: int, kept: Range, known: Topic, marks: Marks, rules: Mapping[int, str]) -> Read:
    shard = known.shards.get(number)
    start = max(kept.start, shard.position if shard else 0)
    end = max(start, marks.last.next if marks.last else 0)
    is_fresh = shard is None or shard.position < kept.start
    return Read(topic, number, start, end, rules.get(number) if is_fresh or shard is None else shard.rules)


def shards_after(
    plan: Plan, reads: Reads, previous: Manifest | None, rules: Mapping[str, Mapping[int, str]]
) -> dict[str, dict[int, Shard]]:
    """Where the shards stand behind this run; `rules`: the last rules records read, by topic and shard."""
    after: dict[str, dict[int, Shard]] = {}
    for read in reads.reads:
        known = _known(previous, read.topic).shards.get(read.shard)
        shard = _moved(known or _new(read, previous), read, plan.held.at_ms)
        in_force = rules.get(read.topic, {}).get(read.shard, read.rules)
        doubt = reads.distrusted.get(read.topic, {}).get(read.shard)
        marks = doubt.later if doubt else reads.marks[read.topic][read.shard]
        after.setdefault(read.topic, {})[read.shard] = replace(shard, marks=marks, rules=in_force, skips=read.skips)
    return after


def with_untold(
    after: Mapping[str, Mapping[int, Shard]],
    plan: Plan,
    unreadable: Iterable[Unreadable],
    marks: Mapping[str, Mapping[int, Marks]],
) -> dict[str, dict[int, Shard]]:
    """With the records whose outcome is unknown because records of the audit could not be read. Those may be about
    any record that there was, for the audit was looked at first; but not about what had ended before, as a mark
    shows."""
    unreadable, partitions = list(unreadable), plan.held.partitions

    def doubted(topic: str, number: int, shard: Shard) -> Shard:
        partition = partitions.audit_partition(topic, number, partitions.beside(number, plan.held.audit))
        first = min((one.first for one in unreadable if one.may_hold_outcomes_of(topic, partition)), default=None)
        if first is None:
            return shard
        ended = _ended_before(first, marks.get(topic, {}).get(number, Marks()))
        untold_from = min(ended, shard.untold_from) if shard.untold_below else ended
        return replace(shard, untold_from=untold_from, untold_below=plan.held.buffers[topic].shards[number].end)

    return {
        topic: {number: doubted(topic, number, shard) for number, shard in some.items()}
        for topic, some in after.items()
    }


def _ended_before(audit_offset: int, marks: Marks) -> int:
    """Of all records below this offset the outcomes stand before that place in the audit."""
    known = (mark for mark in (marks.last, marks.before) if mark is not None)
    return max((mark.next for mark in known if mark.pending == 0 and mark.audit_offset < audit_offset), default=0)


def _new(read: Read, previous: Manifest | None) -> Shard:
    """The first run begins with what is held. What is new to a later one was made since, so that what was deleted of
    it before it was read is a loss like any other."""
    start = 0 if previous else read.start
    return Shard(start=start, position=start)


def _moved(shard: Shard, read: Read, at_ms: int) -> Shard:
    if read.start <= shard.position:
        return replace(shard, position=read.end)
    lost = [*shard.lost, Range(shard.position, read.start)]
    return replace(shard, position=read.end, lost=lost, lost_until_ms=at_ms)
