"""The decisions of a takeover."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from delay_service.core.errors import BufferRecreated, BufferTruncated, CursorLost
from delay_service.core.rules_log import RulesLog
from delay_service.core.takeover import Accepted, claim, plan
from delayline.buffer.cursor import Cursor
from delayline.records.message import Key
from delayline.schedule.rules import Rules
from mq.contract import Handover
from store.index import Checkpoint
from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, never, part

TOPIC_ID = b"t" * 16
CURSOR = Cursor(
    topic_id=TOPIC_ID, next_offset=50, delivered_key=Key(1000, 40), low_offset=20, owner_epoch=3, writer="a"
)
RULES = RulesLog(20, Rules()).encode(50)


def test_a_claim_raises_the_epoch_and_names_the_writer_and_moves_nothing_else() -> None:
    claimed = claim(Handover(CURSOR, TOPIC_ID), (20, 1000), "b")
    assert claimed == replace(CURSOR, owner_epoch=4, writer="b")


def test_a_shard_that_nobody_ever_owned_starts_at_the_beginning() -> None:
    claimed = claim(Handover(None, TOPIC_ID), (0, 5), "b")
    assert (claimed.next_offset, claimed.low_offset, claimed.owner_epoch) == (0, 0, 1)


def test_a_trimmed_buffer_without_a_cursor_stalls_instead_of_guessing() -> None:
    with pytest.raises(CursorLost):
        claim(Handover(None, TOPIC_ID), (7, 9), "b")


def test_a_cursor_of_an_earlier_topic_of_the_same_name_stalls() -> None:
    with pytest.raises(BufferRecreated):
        claim(Handover(CURSOR, b"u" * 16), (0, 1000), "b")


def test_a_log_that_ends_before_what_the_cursor_has_seen_stalls_until_an_operator_takes_it_as_it_is() -> None:
    with pytest.raises(BufferRecreated, match="the log ends at 49, and the cursor has seen it up to 50"):
        claim(Handover(CURSOR, TOPIC_ID), (0, 49), "b")
    claimed = claim(Handover(CURSOR, TOPIC_ID), (0, 49), "b", Accepted(BufferRecreated.reason, 0))
    assert (claimed.next_offset, claimed.low_offset, claimed.owner_epoch) == (0, 0, 4)
    assert claim(Handover(CURSOR, TOPIC_ID), (0, 50), "b").next_offset == 50


def test_a_shard_whose_cursor_may_be_lost_stalls_where_its_log_holds_anything() -> None:
    lost = Handover(None, TOPIC_ID, may_be_lost=True)
    with pytest.raises(CursorLost, match="made anew"):
        claim(lost, (0, 1), "b")
    assert claim(lost, (0, 0), "b").next_offset == 0
    assert claim(lost, (0, 9), "b", Accepted(CursorLost.reason, 7)).next_offset == 7


def test_a_log_that_starts_behind_the_low_offset_stalls() -> None:
    with pytest.raises(BufferTruncated):
        plan(CURSOR, (21, 60), None)


def test_without_a_checkpoint_the_index_starts_empty_at_the_low_offset() -> None:
    chosen = plan(CURSOR, (0, 60), None)
    assert (chosen.reuse, chosen.resume_offset, chosen.read_to) == (False, 20, 60)


def test_a_checkpoint_between_low_and_next_offset_is_resumed() -> None:
    chosen = plan(CURSOR, (0, 60), Checkpoint(45, TOPIC_ID, RULES))
    assert (chosen.reuse, chosen.resume_offset, chosen.read_to) == (True, 45, 60)


@pytest.mark.parametrize(
    ("checkpoint", "why"),
    [
        (Checkpoint(19, TOPIC_ID, RULES), "records it lacks may be gone from the log"),
        (Checkpoint(51, TOPIC_ID, RULES), "it knows more than the queue does"),
        (Checkpoint(45, b"u" * 16, RULES), "it speaks of another topic"),
        (Checkpoint(45, TOPIC_ID, b"x"), "another version has written it"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_not_reused(checkpoint: Checkpoint, why: str) -> None:
    assert not plan(CURSOR, (0, 60), checkpoint).reuse, why


def test_an_index_of_an_earlier_run_of_the_log_is_not_reused() -> None:
    """What it has let go of may have been lost with the commit that ended it."""
    checkpoint = Checkpoint(45, TOPIC_ID + b"first", RULES)
    assert plan(CURSOR, (0, 60), checkpoint, b"first").reuse
    assert not plan(CURSOR, (0, 60), checkpoint, b"second").reuse


def test_a_checkpoint_behind_the_end_of_the_log_is_not_reused() -> None:
    assert not plan(CURSOR, (0, 40), Checkpoint(45, TOPIC_ID, RULES)).reuse


CAUGHT: tuple[tuple[Mutant, Callable[[], None]], ...] = (
    (
        Mutant("a shard begins anew where its cursor was lost", "cursor-kept", never),
        test_a_shard_whose_cursor_may_be_lost_stalls_where_its_log_holds_anything,
    ),
    (
        Mutant("a log that was deleted counts as one that holds nothing", "log-whole", at("test", part("values[0]"))),
        test_a_log_that_ends_before_what_the_cursor_has_seen_stalls_until_an_operator_takes_it_as_it_is,
    ),
)
MUTANTS = tuple(mutant for mutant, _ in CAUGHT)


@pytest.mark.parametrize(("mutant", "check"), CAUGHT, ids=[mutant.broken for mutant in MUTANTS])
def test_a_rule_that_is_broken_is_noticed(
    mutant: Mutant, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = load(mutant, (mutant.module,))[mutant.module].claim
    monkeypatch.setattr("tests.unit.delay_service.core.test_takeover.claim", broken)

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()
