"""What must not be, from what clients know and what stands in target and buffer topics. Pure.

A record has a sender, a number, a partition and a place: the target topic, or the buffer where it is delayed.

    lost          acknowledged, and not in its place
    twice         in the logs more often than once
    misplaced     in the other topic, or in another partition
    out of order  behind a record of the same sender, partition and topic with a higher number
    unexpected    nobody sent it, or its transaction was aborted
    given up      an idempotent producer got an error, though nothing that happened is one
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.fault.proxy.clients import Fate, Note


class Log(Enum):
    TARGET = "target"
    BUFFER = "buffer"


Notes = Mapping[str, Mapping[int, Note]]
"""By sender and number."""
Logs = Mapping[tuple[Log, int], Sequence[bytes]]
"""By partition: the values that committed readers see, in order."""

RULES = ("lost", "twice", "misplaced", "out of order", "unexpected", "given up")


@dataclass
class Verdict:
    """`broken`: (rule, what happened). The rest is how often it could have been otherwise."""

    broken: list[tuple[str, str]] = field(default_factory=list)
    chances: Counter[str] = field(default_factory=Counter)

    def complain(self, rule: str, text: str) -> None:
        self.broken.append((rule, text))


def judge(notes: Notes, logs: Logs) -> Verdict:
    verdict = Verdict()
    seen = Counter(value for values in logs.values() for value in values)
    for (log, partition), values in logs.items():
        _judge_log(notes, log, partition, values, verdict)
    for sender, sent in notes.items():
        for number, note in sent.items():
            _judge_record(sender, number, note, seen[f"{sender}-{number}".encode()], verdict)
    return verdict


def _judge_record(sender: str, number: int, note: Note, times: int, verdict: Verdict) -> None:
    name = f"{sender}-{number}"
    verdict.chances[note.fate.value] += 1
    if times > 1:
        verdict.complain("twice", f"{name} {times} times")
    if note.fate is Fate.ACKNOWLEDGED and not times:
        verdict.complain("lost", name)
    if note.fate is Fate.ABORTED and times:
        verdict.complain("unexpected", f"{name} was aborted")
    if note.fate is Fate.FAILED:
        verdict.complain("given up", f"{name}: {note.error}")


def _judge_log(notes: Notes, log: Log, partition: int, values: Sequence[bytes], verdict: Verdict) -> None:
    last: dict[str, int] = {}
    for value in values:
        sender, _, digits = value.decode().rpartition("-")
        note = notes.get(sender, {}).get(int(digits)) if digits.isdigit() else None
        if note is None:
            verdict.complain("unexpected", f"{value!r} was never sent")
            continue
        verdict.chances[f"in a {log.value}"] += 1
        if note.partition != partition or note.delayed != (log is Log.BUFFER):
            verdict.complain("misplaced", f"{value!r} in {log.value} {partition}")
        if int(digits) < last.get(sender, -1):
            verdict.complain("out of order", f"{value!r} in {log.value} {partition} behind {last[sender]}")
        last[sender] = int(digits)
