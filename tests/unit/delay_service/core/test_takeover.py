"""The decisions of a takeover."""

from dataclasses import replace

import pytest

from delay_service.core.errors import BufferRecreated, BufferTruncated, CursorLost
from delay_service.core.rules_log import RulesLog
from delay_service.core.takeover import claim, plan
from delayline.buffer.cursor import Cursor
from delayline.records.message import Key
from delayline.schedule.rules import Rules
from mq.contract import Handover
from store.index import Checkpoint

TOPIC_ID = b"t" * 16
CURSOR = Cursor(
    topic_id=TOPIC_ID, next_offset=50, delivered_key=Key(1000, 40), low_offset=20, owner_epoch=3, writer="a"
)
RULES = RulesLog(20, Rules()).encode(50)


def test_a_claim_raises_the_epoch_and_names_the_writer_and_moves_nothing_else() -> None:
    claimed = claim(Handover(CURSOR, TOPIC_ID), 20, "b")
    assert claimed == replace(CURSOR, owner_epoch=4, writer="b")


def test_a_shard_that_nobody_ever_owned_starts_at_the_beginning() -> None:
    claimed = claim(Handover(None, TOPIC_ID), 0, "b")
    assert (claimed.next_offset, claimed.low_offset, claimed.owner_epoch) == (0, 0, 1)


def test_a_trimmed_buffer_without_a_cursor_stalls_instead_of_guessing() -> None:
    with pytest.raises(CursorLost):
        claim(Handover(None, TOPIC_ID), 7, "b")


def test_a_cursor_of_an_earlier_topic_of_the_same_name_stalls() -> None:
    with pytest.raises(BufferRecreated):
        claim(Handover(CURSOR, b"u" * 16), 0, "b")


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
