"""What must not be, from what clients know and what the brokers have. Pure.

The way of a message has two halves. What a client has sent is in the buffer, or in its topic where it has no delay:

    lost        acknowledged, and in neither
    twice       there more often than its client has sent it: RocketMQ's repeats a send that had no answer
    misplaced   delayed, and sent to its topic, or the other way round
    due         due at another time than its sender reckons
    unexpected  no client sent it

What is in the buffer is delivered, once for each record: `tests.fault.rocketmq.judge` has the rules. And a recall is
kept:

    lie         OK, and it was delivered; or too late, and it was not, or was not even due
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum

from tests.fault.proxy.judge import Verdict
from tests.fault.rocketmq.judge import Delivered, Evidence, Row, Sent
from tests.fault.rocketmq.judge import judge as judge_workers

DELIVERED, DECIDED = "delivered", "whose recall was decided"
RULES = {
    **dict.fromkeys(("lost", "twice", "misplaced", "due", "unexpected"), "acknowledged"),
    **dict.fromkeys(("early", "strange", "passed", "without_row"), DELIVERED),
    "lie": DECIDED,
}
"""Each beside what had a chance to break it, of `Verdict.chances`."""
CANCELLED = "cancelled"
REPEATS = "stored again by a client that repeated its send"
LATER_OK = "refused as too late, cancelled by an earlier ask"


@dataclass(frozen=True)
class Note:
    """A message as its sender knows it: sent in `attempts` requests, due `delay_ms` after it is stored, or at
    `deliver_ms`, or at once."""

    tag: str
    way: str
    attempts: int = 1
    failure: str = ""
    delay_ms: int | None = None
    deliver_ms: int | None = None

    @property
    def is_acknowledged(self) -> bool:
        return not self.failure and self.way != "one-way"

    @property
    def fate(self) -> str:
        if self.way == "one-way":
            return "sent one-way"
        known = "acknowledged" if self.is_acknowledged else "of unknown fate"
        return f"{known}, in batches" if self.way == "batch" else known


class Answered(Enum):
    """The last answer to the recalls of a message."""

    OK = "OK"
    TOO_LATE = "too late (604)"
    UNDECIDED = "undecided (14)"
    NONE = "without an answer"


@dataclass(frozen=True)
class Recall:
    """`asks` is how often it was asked for until the answer, which was there at `answered_ms`."""

    tag: str
    answer: Answered
    asks: int
    answered_ms: int


@dataclass(frozen=True)
class Buffered:
    """A message in a buffer."""

    tag: str
    shard: str
    offset: int
    stored_ms: int


@dataclass(frozen=True)
class Direct:
    """A message in the topic that was not delayed."""

    tag: str
    stored_ms: int


@dataclass
class Found:
    """All that the brokers have."""

    buffered: list[Buffered]
    direct: list[Direct]
    delivered: list[Delivered]
    rows: list[Row] = field(default_factory=list)

    @property
    def stored(self) -> Counter[str]:
        """By tag: how often it was stored for a client."""
        return Counter([*(one.tag for one in self.buffered), *(one.tag for one in self.direct)])


def judge(notes: Iterable[Note], found: Found, recalls: Sequence[Recall] = ()) -> Verdict:
    verdict = Verdict()
    known = {note.tag: note for note in notes}
    _judge_stored(known, found, verdict)
    _judge_places(known, found, verdict)
    _judge_delivered(found, recalls, verdict)
    _judge_recalls(known, found, recalls, verdict)
    return verdict


def _judge_stored(known: Mapping[str, Note], found: Found, verdict: Verdict) -> None:
    stored = found.stored
    for note in known.values():
        times = stored[note.tag]
        verdict.chances[note.fate] += 1
        verdict.chances[REPEATS] += max(0, times - 1)
        if note.is_acknowledged and not times:
            verdict.complain("lost", note.tag)
        if times > note.attempts:
            verdict.complain("twice", f"{note.tag}: {times} records of {note.attempts} sends")


def _judge_places(known: Mapping[str, Note], found: Found, verdict: Verdict) -> None:
    """What was due at a moment that has passed when the proxy sees it goes to its topic."""
    due_ms = {(one.shard, one.offset): one for one in found.delivered}
    for kept in found.buffered:
        verdict.chances["in a buffer"] += 1
        note = known.get(kept.tag)
        if note is None:
            verdict.complain("unexpected", f"{kept.tag} in the buffer")
        elif (due := due_of(note, kept)) is None:
            verdict.complain("misplaced", f"{kept.tag} in the buffer")
        elif (one := due_ms.get((kept.shard, kept.offset))) is not None and (one.due_ms, one.tag) != (due, kept.tag):
            verdict.complain("due", f"{one.tag} at {one.due_ms} instead of {kept.tag} at {due}")
    for direct in found.direct:
        verdict.chances["sent straight to the topic"] += 1
        note = known.get(direct.tag)
        if note is None:
            verdict.complain("unexpected", f"{direct.tag} in the topic")
        elif note.delay_ms is not None or direct.stored_ms < (note.deliver_ms or 0):
            verdict.complain("misplaced", f"{direct.tag} in the topic at {direct.stored_ms}")


def due_of(note: Note, kept: Buffered) -> int | None:
    """In epoch ms; None where it was not to be delayed."""
    return note.deliver_ms if note.delay_ms is None else kept.stored_ms + note.delay_ms


def _judge_delivered(found: Found, recalls: Iterable[Recall], verdict: Verdict) -> None:
    """Each record is a message of its own here: a client's repeat is delivered as well."""
    open_tags = {one.tag for one in recalls if one.answer is not Answered.TOO_LATE} | _cancelled_earlier(
        found, recalls
    )
    sent = Sent()
    for kept in found.buffered:
        known = sent.unknown if kept.tag in open_tags else sent.acknowledged
        known.add(_record(kept))
    delivered = [Delivered(_record(one), one.stored_ms, one.due_ms, one.shard, one.offset) for one in found.delivered]
    verdict.chances[DELIVERED] += len(delivered)
    workers = judge_workers(Evidence(sent, delivered, found.rows))
    for rule in fields(workers):
        verdict.broken += [(rule.name, tag) for tag in getattr(workers, rule.name)]


def _record(one: Buffered | Delivered) -> str:
    return f"{one.tag} of {one.shard}, {one.offset}"


def _cancelled_earlier(found: Found, recalls: Iterable[Recall]) -> set[str]:
    """What was refused as too late though it was cancelled: an earlier ask, whose answer did not come, has done it.
    An owner that does not remember it any more answers that the message has ended."""
    again = {one.tag for one in recalls if one.answer is Answered.TOO_LATE and one.asks > 1}
    cancelled = {(row.shard, row.offset) for row in found.rows if row.outcome == CANCELLED}
    return {kept.tag for kept in found.buffered if kept.tag in again and (kept.shard, kept.offset) in cancelled}


def _judge_recalls(known: Mapping[str, Note], found: Found, recalls: Sequence[Recall], verdict: Verdict) -> None:
    delivered = {one.tag for one in found.delivered}
    buffered = {one.tag: one for one in found.buffered}
    earlier = _cancelled_earlier(found, recalls)
    verdict.chances[LATER_OK] += len(earlier)
    for one in recalls:
        verdict.chances[f"recalled: {one.answer.value}"] += 1
        verdict.chances[DECIDED] += one.answer in (Answered.OK, Answered.TOO_LATE)
        due_ms = due_of(known[one.tag], buffered[one.tag]) if one.tag in buffered else None
        if one.answer is Answered.OK and one.tag in delivered:
            verdict.complain("lie", f"{one.tag}: recalled, and delivered")
        if one.answer is Answered.TOO_LATE and one.tag not in earlier:
            if one.tag not in delivered:
                verdict.complain("lie", f"{one.tag}: too late, and never delivered")
            elif due_ms is not None and one.answered_ms < due_ms:
                verdict.complain("lie", f"{one.tag}: too late at {one.answered_ms}, and due at {due_ms}")
