"""The proof's judge finds each kind of wrong, and nothing where nothing is wrong."""

import pytest

from tests.fault.proxy.clients import Fate, Note, read_notes
from tests.fault.proxy.judge import Log, judge

TARGET, BUFFER = (Log.TARGET, 0), (Log.BUFFER, 0)


def notes(*delayed: bool, fate: Fate = Fate.ACKNOWLEDGED) -> dict[str, dict[int, Note]]:
    """What sender `a` knows of records 0, 1, ... of partition 0."""
    return {"a": {number: Note(0, 60_000 if later else -1, fate) for number, later in enumerate(delayed)}}


def rules(sent: dict[str, dict[int, Note]], target: list[bytes], buffer: list[bytes]) -> list[str]:
    return [rule for rule, _ in judge(sent, {TARGET: target, BUFFER: buffer}).broken]


def test_what_is_all_in_its_place_breaks_nothing_and_counts() -> None:
    verdict = judge(notes(False, True, False), {TARGET: [b"a-0", b"a-2"], BUFFER: [b"a-1"]})

    assert verdict.broken == []
    assert verdict.chances == {"acknowledged": 3, "in a target": 2, "in a buffer": 1}


@pytest.mark.parametrize(
    ("target", "buffer", "rule"),
    [
        ([b"a-0"], [b"a-1"], "lost"),
        ([b"a-0", b"a-2"], [], "lost"),
        ([b"a-0", b"a-2", b"a-2"], [b"a-1"], "twice"),
        ([b"a-0", b"a-1", b"a-2"], [], "misplaced"),
        ([b"a-2", b"a-0"], [b"a-1"], "out of order"),
        ([b"a-0", b"a-2", b"a-7"], [b"a-1"], "unexpected"),
        ([b"a-0", b"a-2", b"b-0"], [b"a-1"], "unexpected"),
        ([b"a-0", b"a-2", b"nonsense"], [b"a-1"], "unexpected"),
    ],
)
def test_each_wrong_is_called_by_its_name(target: list[bytes], buffer: list[bytes], rule: str) -> None:
    assert rules(notes(False, True, False), target, buffer) == [rule]


def test_a_record_in_both_logs_is_twice_there() -> None:
    assert rules(notes(True), [b"a-0"], [b"a-0"]) == ["misplaced", "twice"]


def test_a_record_in_another_partition_is_misplaced() -> None:
    verdict = judge(notes(False), {(Log.TARGET, 1): [b"a-0"]})

    assert [rule for rule, _ in verdict.broken] == ["misplaced"]


def test_what_got_no_answer_may_be_there_once_or_not_at_all() -> None:
    unknown = notes(True, fate=Fate.UNKNOWN)

    assert rules(unknown, [], []) == []
    assert rules(unknown, [], [b"a-0"]) == []
    assert rules(unknown, [], [b"a-0", b"a-0"]) == ["twice"]


def test_what_was_aborted_is_not_seen() -> None:
    assert rules(notes(True, fate=Fate.ABORTED), [], []) == []
    assert rules(notes(True, fate=Fate.ABORTED), [], [b"a-0"]) == ["unexpected"]


def test_a_client_that_got_an_error_is_one_too_many() -> None:
    assert rules(notes(False, fate=Fate.FAILED), [], []) == ["given up"]


def test_what_a_client_wrote_is_read_between_the_lines_of_its_library() -> None:
    lines = ["s 0 1 -1", "[warn] something", "s 1 0 500", "a 0", "f 1 it is over", "s 2 0 -1", "x 2", "# note", "e"]

    assert read_notes(lines) == {
        0: Note(1, -1, Fate.ACKNOWLEDGED),
        1: Note(0, 500, Fate.FAILED, "it is over"),
        2: Note(0, -1, Fate.ABORTED),
    }
