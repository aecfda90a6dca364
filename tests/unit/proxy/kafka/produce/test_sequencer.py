"""What one gate does, event by event. How it all holds together under faults: tests/proxy_model."""

import pytest

from delayline.errors import Bug
from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.sequencer import (
    SEQUENCES,
    Answer,
    Ask,
    AskAnswered,
    AskFailed,
    Batch,
    BufferAnswered,
    Close,
    Event,
    LogRole,
    Output,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    Sequencer,
    TargetAnswered,
)

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
MAY_WRITE = ErrorCode.INVALID_RECORD


def batch(sequence: int, count: int, delayed: int, epoch: int = 0, refusal: ErrorCode = ErrorCode.NONE) -> Batch:
    return Batch("orders", 0, 7, epoch, sequence, count, delayed, refusal=refusal)


def after(sequencer: Sequencer, *events: Event) -> list[Output]:
    """What the last of the events leads to."""
    outputs: list[Output] = []
    for event in events:
        outputs = sequencer.handle(event)
    return outputs


def ask_answered(
    sequencer: Sequencer, outputs: list[Output], target: int | None = None, buffer: int | None = None
) -> list[Output]:
    """What follows when both logs have answered, however often each is asked. None: it knows no such producer."""
    answers = {LogRole.TARGET: target, LogRole.BUFFER: buffer}
    while outputs and isinstance(ask := outputs[-1], Ask):
        outputs = after(sequencer, AskAnswered(ask.batch, ask.side, answers[ask.side]))
    return outputs


def session(next_sequence: int, target: int | None, buffer: int | None) -> Sequencer:
    """A connection that has written one plain record, so that `next_sequence` comes next and both logs agree."""
    sequencer = Sequencer()
    first = batch((next_sequence - 1) % SEQUENCES, 1, 0)
    outputs = ask_answered(sequencer, after(sequencer, first), target, buffer)
    assert isinstance(outputs[0], SendTarget)
    after(sequencer, TargetAnswered(first, 0))
    return sequencer


def test_a_mixed_batch_goes_to_T_then_to_B_and_is_answered_with_Ts_offset() -> None:
    sequencer, mixed = session(11, 6, 4), batch(11, 5, 2)

    assert after(sequencer, mixed) == [SendTarget(mixed, 7)]
    assert after(sequencer, TargetAnswered(mixed, 0)) == [SendBuffer(mixed, 4)]
    assert after(sequencer, BufferAnswered(mixed, 0)) == [Answer(mixed, 0, verbatim=True)]
    assert after(sequencer, following := batch(16, 1, 0)) == [SendTarget(following, 10)]


def test_plain_batches_of_a_producer_without_delayed_records_pass_unchanged_and_unwaited() -> None:
    sequencer, one, two = session(1, None, None), batch(1, 3, 0), batch(4, 3, 0)

    assert after(sequencer, one) == [SendTarget(one, 1)]
    assert after(sequencer, two) == [SendTarget(two, 4)]
    assert after(sequencer, TargetAnswered(one, 0)) == [Answer(one, 0, verbatim=True)]


def test_plain_batches_behind_one_that_will_come_again_are_answered_like_it() -> None:
    """librdkafka, with 45 for the last, would send the first, which T has, under a new epoch."""
    sequencer, one, two, three = session(1, None, None), batch(1, 1, 0), batch(2, 1, 0), batch(3, 1, 0)
    after(sequencer, one, two, three)

    timed_out, moved = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert after(sequencer, TargetAnswered(one, timed_out)) == [Answer(one, timed_out, verbatim=True)]
    assert after(sequencer, TargetAnswered(two, moved)) == [Answer(two, moved, verbatim=True)]
    assert after(sequencer, TargetAnswered(three, OUT_OF_ORDER)) == [Answer(three, moved, verbatim=False)]


def test_a_plain_batch_that_is_out_of_order_by_itself_gets_that_error() -> None:
    sequencer, one, three = session(1, None, None), batch(1, 1, 0), batch(2, 1, 0)
    after(sequencer, one, three)

    assert after(sequencer, TargetAnswered(one, 0)) == [Answer(one, 0, verbatim=True)]
    assert after(sequencer, TargetAnswered(three, OUT_OF_ORDER)) == [Answer(three, OUT_OF_ORDER, verbatim=True)]


def test_a_batch_that_is_all_delayed_probes_T_for_the_right_to_write() -> None:
    sequencer, delayed = session(1, None, None), batch(1, 2, 2)

    assert after(sequencer, delayed) == [ProbeTarget(delayed)]
    assert after(sequencer, TargetAnswered(delayed, MAY_WRITE)) == [SendBuffer(delayed, 0)]


def test_whoever_may_not_write_to_T_hears_that_from_T_and_B_hears_nothing() -> None:
    sequencer, delayed = session(1, None, None), batch(1, 2, 2)

    answers = after(sequencer, delayed, TargetAnswered(delayed, ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert answers == [Answer(delayed, ErrorCode.TOPIC_AUTHORIZATION_FAILED, verbatim=True)]


def test_a_batch_with_delayed_records_waits_for_the_plain_ones_before_it() -> None:
    sequencer, plain, mixed = session(1, None, None), batch(1, 1, 0), batch(2, 2, 1)

    assert after(sequencer, plain, mixed) == []
    assert after(sequencer, TargetAnswered(plain, 0))[1:] == [SendTarget(mixed, 2)]


def test_the_first_batch_of_a_connection_asks_B_first_then_T_then_B_again() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 1)

    assert after(sequencer, first) == [Ask(first, LogRole.BUFFER)]
    assert after(sequencer, AskAnswered(first, LogRole.BUFFER, 4)) == [Ask(first, LogRole.TARGET)]
    assert after(sequencer, AskAnswered(first, LogRole.TARGET, 8)) == [Ask(first, LogRole.BUFFER)]
    assert after(sequencer, AskAnswered(first, LogRole.BUFFER, 4)) == [SendTarget(first, 6)]


def test_where_B_knows_nothing_and_the_producer_is_new_T_is_not_asked() -> None:
    sequencer, first = Sequencer(), batch(0, 3, 1)

    assert after(sequencer, first, AskAnswered(first, LogRole.BUFFER, None)) == [SendTarget(first, 0)]


def test_where_B_knows_nothing_T_is_asked_once_and_judges() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 1)

    assert after(sequencer, first, AskAnswered(first, LogRole.BUFFER, None)) == [Ask(first, LogRole.TARGET)]
    assert after(sequencer, AskAnswered(first, LogRole.TARGET, 13)) == [SendTarget(first, 10)]


def test_where_T_gets_no_part_it_is_asked_although_B_knows_nothing() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 3)

    assert after(sequencer, first, AskAnswered(first, LogRole.BUFFER, None)) == [Ask(first, LogRole.TARGET)]


def test_a_B_that_keeps_moving_ends_the_connection() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 1)
    outputs = after(sequencer, first)

    for moved in range(100):
        assert isinstance(outputs[0], Ask)
        outputs = after(sequencer, AskAnswered(first, outputs[0].side, moved))
        if isinstance(outputs[0], Close):
            return
    pytest.fail("asked for ever")


def test_a_repetition_of_the_last_batch_in_both_logs_is_for_both_to_recognise() -> None:
    sequencer, again = Sequencer(), batch(10, 3, 1)

    assert ask_answered(sequencer, after(sequencer, again), target=8, buffer=5) == [SendTarget(again, 6)]
    assert after(sequencer, TargetAnswered(again, 0)) == [SendBuffer(again, 4)]
    assert after(sequencer, BufferAnswered(again, 46)) == [Answer(again, 0, verbatim=True)]


def test_a_repetition_of_the_last_batch_all_delayed_is_for_B_to_recognise() -> None:
    sequencer, again = Sequencer(), batch(10, 3, 3)

    assert ask_answered(sequencer, after(sequencer, again), target=6, buffer=7) == [ProbeTarget(again)]
    assert after(sequencer, TargetAnswered(again, MAY_WRITE)) == [SendBuffer(again, 4)]


def test_a_repetition_behind_which_there_is_more_is_confirmed_with_Ts_word_and_written_nowhere() -> None:
    sequencer, again = Sequencer(), batch(10, 3, 1)

    assert ask_answered(sequencer, after(sequencer, again), target=9, buffer=5) == [ProbeTarget(again)]
    assert after(sequencer, TargetAnswered(again, MAY_WRITE)) == [Answer(again, 0, verbatim=False)]


def test_a_repetition_with_delayed_records_of_which_B_knows_nothing_is_no_repetition() -> None:
    sequencer, mixed = Sequencer(), batch(0, 36, 18)
    outputs = after(sequencer, mixed, AskAnswered(mixed, LogRole.BUFFER, None), TargetAnswered(mixed, OUT_OF_ORDER))

    assert ask_answered(sequencer, outputs, target=70) == [ProbeTarget(mixed)]
    assert after(sequencer, TargetAnswered(mixed, MAY_WRITE)) == [Answer(mixed, OUT_OF_ORDER, verbatim=False)]


def test_a_repetition_that_T_does_not_recognise_is_out_of_order() -> None:
    sequencer, again = Sequencer(), batch(10, 3, 1)
    ask_answered(sequencer, after(sequencer, again), target=8, buffer=5)

    asked = after(sequencer, TargetAnswered(again, OUT_OF_ORDER))
    assert asked == [Ask(again, LogRole.BUFFER)]
    assert ask_answered(sequencer, asked, target=8, buffer=5) == [SendTarget(again, 6)]
    assert after(sequencer, TargetAnswered(again, OUT_OF_ORDER)) == [Answer(again, OUT_OF_ORDER, verbatim=True)]


# --- where an epoch begins


@pytest.mark.parametrize("delayed", [0, 1, 3])
def test_a_new_epoch_that_begins_in_the_middle_is_out_of_order_until_its_beginning_has_come(delayed: int) -> None:
    """Java numbers what is in flight anew, and a later batch may come first."""
    sequencer, refused = Sequencer(), batch(0, 1, 0, refusal=ErrorCode.INVALID_RECORD)
    later, earlier = batch(36, 3, delayed, epoch=1), batch(0, 36, delayed, epoch=1)
    after(sequencer, refused, AskAnswered(refused, LogRole.BUFFER, None), TargetAnswered(refused, MAY_WRITE))

    assert ask_answered(sequencer, after(sequencer, later)) == [ProbeTarget(later)]
    assert after(sequencer, TargetAnswered(later, MAY_WRITE)) == [Answer(later, OUT_OF_ORDER, verbatim=False)]
    outputs = after(sequencer, earlier, AskAnswered(earlier, LogRole.BUFFER, None))
    assert outputs == [SendTarget(earlier, 0)]


@pytest.mark.parametrize("side", LogRole)
@pytest.mark.parametrize("delayed", [0, 1, 3])
def test_a_new_epoch_begins_at_0_where_either_log_knows_an_earlier_one(side: LogRole, delayed: int) -> None:
    sequencer, later = Sequencer(), batch(36, 3, delayed, epoch=1)
    earlier = {one: 0 if one is side else -1 for one in LogRole}
    order = (LogRole.BUFFER, LogRole.TARGET, LogRole.BUFFER) if delayed == 3 else (LogRole.BUFFER, LogRole.TARGET)
    answers = [AskAnswered(later, one, None, earlier[one]) for one in order]

    assert after(sequencer, later, *answers) == [ProbeTarget(later)]
    assert after(sequencer, TargetAnswered(later, MAY_WRITE)) == [Answer(later, OUT_OF_ORDER, verbatim=False)]


@pytest.mark.parametrize("side", LogRole)
def test_a_batch_of_an_epoch_that_either_log_has_left_behind_is_fenced(side: LogRole) -> None:
    sequencer, old = Sequencer(), batch(36, 3, 1)
    answers = {
        LogRole.BUFFER: [AskAnswered(old, side, None, 1)],
        LogRole.TARGET: [AskAnswered(old, LogRole.BUFFER, None), AskAnswered(old, side, 0, 1)],
    }

    assert after(sequencer, old, *answers[side]) == [ProbeTarget(old)]
    fenced = Answer(old, ErrorCode.INVALID_PRODUCER_EPOCH, verbatim=False)
    assert after(sequencer, TargetAnswered(old, MAY_WRITE)) == [fenced]


def test_where_an_epoch_began_in_the_middle_nothing_before_that_is_taken_for_written() -> None:
    sequencer, first, earlier = Sequencer(), batch(36, 34, 17), batch(0, 36, 18)
    after(sequencer, first, AskAnswered(first, LogRole.BUFFER, None), AskAnswered(first, LogRole.TARGET, None))
    after(sequencer, TargetAnswered(first, 0), BufferAnswered(first, 0))

    assert ask_answered(sequencer, after(sequencer, earlier), target=53, buffer=17) == [ProbeTarget(earlier)]
    assert after(sequencer, TargetAnswered(earlier, MAY_WRITE)) == [Answer(earlier, OUT_OF_ORDER, verbatim=False)]


@pytest.mark.parametrize("delayed", [0, 1, 3])
def test_a_client_that_goes_on_behind_a_refused_first_batch_is_served(delayed: int) -> None:
    """aiokafka; a broker that knows nothing of the producer takes it."""
    sequencer, refused = Sequencer(), batch(0, 1, 0, refusal=ErrorCode.INVALID_RECORD)
    following = batch(1, 3, delayed)
    after(sequencer, refused, AskAnswered(refused, LogRole.BUFFER, None), TargetAnswered(refused, MAY_WRITE))

    taken = ask_answered(sequencer, after(sequencer, following))
    assert taken == [ProbeTarget(following) if delayed == 3 else SendTarget(following, 1)]
    if delayed == 3:
        assert after(sequencer, TargetAnswered(following, MAY_WRITE)) == [SendBuffer(following, 1)]


def test_what_was_sent_before_the_refusal_was_known_comes_again() -> None:
    """Java numbers it anew, and would have nothing left to begin its new epoch with."""
    sequencer, refused = Sequencer(), batch(0, 1, 0, refusal=ErrorCode.INVALID_RECORD)
    one, other = batch(1, 3, 0), batch(4, 3, 0)
    after(sequencer, refused, one, other, AskAnswered(refused, LogRole.BUFFER, None))

    outputs = after(sequencer, TargetAnswered(refused, MAY_WRITE))
    for behind in (one, other):
        assert ask_answered(sequencer, outputs) == [ProbeTarget(behind)]
        outputs = after(sequencer, TargetAnswered(behind, MAY_WRITE))
        assert outputs[0] == Answer(behind, OUT_OF_ORDER, verbatim=False)


def test_a_batch_that_cannot_be_split_is_refused_whatever_the_logs_seem_to_hold() -> None:
    sequencer, invalid = Sequencer(), batch(10, 3, 0, refusal=ErrorCode.INVALID_RECORD)

    assert ask_answered(sequencer, after(sequencer, invalid), target=9, buffer=5) == [ProbeTarget(invalid)]
    refused = Answer(invalid, ErrorCode.INVALID_RECORD, verbatim=False)
    assert after(sequencer, TargetAnswered(invalid, MAY_WRITE)) == [refused]


def test_logs_that_hold_a_part_that_no_batch_explains_are_answered_45() -> None:
    sequencer, again = Sequencer(), batch(10, 4, 3)
    answers = (
        AskAnswered(again, LogRole.BUFFER, 4),
        AskAnswered(again, LogRole.TARGET, 8),
        AskAnswered(again, LogRole.BUFFER, 4),
    )

    assert after(sequencer, again, *answers) == [ProbeTarget(again)]
    assert after(sequencer, TargetAnswered(again, MAY_WRITE)) == [Answer(again, OUT_OF_ORDER, verbatim=False)]


def test_a_batch_that_is_not_next_is_answered_45_after_the_logs_were_asked() -> None:
    sequencer, late = session(11, 6, 4), batch(14, 2, 2)
    outputs = after(sequencer, late)
    assert outputs == [Ask(late, LogRole.BUFFER)]

    answers = (
        AskAnswered(late, LogRole.BUFFER, 4),
        AskAnswered(late, LogRole.TARGET, 7),
        AskAnswered(late, LogRole.BUFFER, 4),
    )

    assert after(sequencer, *answers) == [ProbeTarget(late)]
    assert after(sequencer, TargetAnswered(late, MAY_WRITE)) == [Answer(late, OUT_OF_ORDER, verbatim=False)]


def test_a_batch_behind_one_that_will_come_again_is_answered_the_same() -> None:
    sequencer, one, two = session(11, 6, 4), batch(11, 2, 1), batch(13, 2, 1)
    after(sequencer, one, two, TargetAnswered(one, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    answers = after(sequencer, TargetAnswered(two, MAY_WRITE))

    assert answers == [Answer(two, ErrorCode.NOT_LEADER_OR_FOLLOWER, verbatim=False)]


@pytest.mark.parametrize(
    "code", [None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 10, 47, 51]
)
def test_once_T_has_its_part_whatever_B_answers_but_success_ends_the_connection(code: int | None) -> None:
    sequencer, mixed = session(11, 6, 4), batch(11, 2, 1)

    outputs = after(sequencer, mixed, TargetAnswered(mixed, 0), BufferAnswered(mixed, code))

    assert [type(output) for output in outputs] == [Close]
    assert after(sequencer, batch(13, 1, 0)) == []


@pytest.mark.parametrize(
    ("code", "answer"),
    [(10, 10), (47, 47), (48, 48), (90, 90), (51, 19), (3, 19), (29, 19), (6, 19), (19, 19)],
)
def test_while_no_log_has_any_of_it_Bs_errors_are_reported_as_far_as_they_are_the_clients(
    code: int, answer: int
) -> None:
    sequencer, delayed = session(11, 6, 4), batch(11, 2, 2)

    outputs = after(sequencer, delayed, TargetAnswered(delayed, MAY_WRITE), BufferAnswered(delayed, code))

    assert outputs == [Answer(delayed, answer, verbatim=False)]


@pytest.mark.parametrize("code", [None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_batch_that_B_may_have_ends_the_connection(code: int | None) -> None:
    sequencer, delayed = session(11, 6, 4), batch(11, 2, 2)

    outputs = after(sequencer, delayed, TargetAnswered(delayed, MAY_WRITE), BufferAnswered(delayed, code))

    assert [type(output) for output in outputs] == [Close]


def test_after_a_definite_error_the_next_batch_may_take_the_same_sequence() -> None:
    """A transactional producer renumbers what follows a failed batch, under the same epoch until it aborts."""
    sequencer, refused, renumbered = session(11, 6, 4), batch(11, 5, 2), batch(11, 1, 1)

    outputs = after(sequencer, refused, TargetAnswered(refused, ErrorCode.INVALID_RECORD))

    assert outputs == [Answer(refused, ErrorCode.INVALID_RECORD, verbatim=True)]
    assert after(sequencer, renumbered, TargetAnswered(renumbered, MAY_WRITE)) == [SendBuffer(renumbered, 4)]


def test_what_follows_a_renumbered_batch_is_not_taken_for_what_was_there_before() -> None:
    sequencer, one, two = session(11, 6, 4), batch(11, 5, 0), batch(16, 5, 0)
    after(sequencer, one, two, TargetAnswered(one, ErrorCode.INVALID_RECORD), TargetAnswered(two, OUT_OF_ORDER))
    renumbered, following = batch(11, 3, 1), batch(14, 2, 0)
    after(sequencer, renumbered, TargetAnswered(renumbered, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    assert after(sequencer, following) == [ProbeTarget(following)]


def test_a_batch_that_T_found_too_large_is_taken_in_pieces_over_the_same_sequences() -> None:
    sequencer, large, piece = session(11, 6, 4), batch(11, 6, 3), batch(11, 3, 1)
    after(sequencer, large, TargetAnswered(large, ErrorCode.MESSAGE_TOO_LARGE))

    assert after(sequencer, piece) == [SendTarget(piece, 7)]
    after(sequencer, TargetAnswered(piece, 0), BufferAnswered(piece, 0))
    assert after(sequencer, rest := batch(14, 3, 2)) == [SendTarget(rest, 9)]


def test_what_the_relay_refuses_is_refused_before_T_has_any_of_it() -> None:
    sequencer, large = session(11, 6, 4), batch(11, 6, 3, refusal=ErrorCode.MESSAGE_TOO_LARGE)

    assert after(sequencer, large) == [ProbeTarget(large)]
    assert after(sequencer, TargetAnswered(large, MAY_WRITE)) == [Answer(large, 10, verbatim=False)]


def test_what_the_relay_refuses_only_now_that_T_has_a_part_of_it_ends_the_connection() -> None:
    sequencer, again = Sequencer(), batch(10, 3, 1, refusal=ErrorCode.NOT_ENOUGH_REPLICAS)
    answers = (
        AskAnswered(again, LogRole.BUFFER, 4),
        AskAnswered(again, LogRole.TARGET, 8),
        AskAnswered(again, LogRole.BUFFER, 4),
    )

    assert [type(output) for output in after(sequencer, again, *answers)] == [Close]


def test_an_epoch_that_begins_on_the_connection_starts_without_asking() -> None:
    sequencer, bumped = session(11, 6, 4), batch(0, 2, 1, epoch=1)

    assert after(sequencer, bumped) == [SendTarget(bumped, 0)]
    assert after(sequencer, TargetAnswered(bumped, 0)) == [SendBuffer(bumped, 0)]


def test_an_epoch_from_before_is_answered_47() -> None:
    sequencer, old = session(11, 6, 4), batch(11, 2, 1)
    bumped = batch(0, 1, 0, epoch=1)
    after(sequencer, bumped, TargetAnswered(bumped, 0))

    outputs = after(sequencer, old, TargetAnswered(old, MAY_WRITE))

    assert outputs == [Answer(old, ErrorCode.INVALID_PRODUCER_EPOCH, verbatim=False)]


def test_a_producer_id_without_a_sequence_is_an_invalid_record() -> None:
    sequencer, wrong = Sequencer(), batch(-1, 2, 1)

    assert after(sequencer, wrong, TargetAnswered(wrong, MAY_WRITE)) == [Answer(wrong, 87, verbatim=False)]


def test_sequences_of_both_parts_begin_again_at_0() -> None:
    sequencer = session(SEQUENCES - 1, SEQUENCES - 5, 3)
    mixed, following = batch(SEQUENCES - 1, 4, 2), batch(3, 1, 0)

    assert after(sequencer, mixed) == [SendTarget(mixed, SEQUENCES - 4)]
    assert after(sequencer, TargetAnswered(mixed, 0)) == [SendBuffer(mixed, 3)]
    after(sequencer, BufferAnswered(mixed, 0))
    assert after(sequencer, following) == [SendTarget(following, SEQUENCES - 2)]


def test_a_producer_that_B_has_forgotten_is_answered_45_on_a_new_connection() -> None:
    sequencer, plain = Sequencer(), batch(100, 2, 0)
    assert ask_answered(sequencer, after(sequencer, plain), target=97) == [ProbeTarget(plain)]

    assert after(sequencer, TargetAnswered(plain, MAY_WRITE)) == [Answer(plain, OUT_OF_ORDER, verbatim=False)]


def test_a_part_that_comes_to_B_while_T_is_asked_is_counted() -> None:
    """Numbered without it, the batch could reach T again when the wrong sequence has become the next one."""
    sequencer, mixed = Sequencer(), batch(3, 3, 2)
    after(sequencer, mixed)
    after(sequencer, AskAnswered(mixed, LogRole.BUFFER, None))
    assert after(sequencer, AskAnswered(mixed, LogRole.TARGET, 2)) == [Ask(mixed, LogRole.BUFFER)]

    outputs = after(sequencer, AskAnswered(mixed, LogRole.BUFFER, 1))

    assert ask_answered(sequencer, outputs, target=2, buffer=1) == [SendTarget(mixed, 2)]


def test_a_45_of_B_is_asked_about_before_anything_is_answered() -> None:
    sequencer, mixed = session(11, 6, 4), batch(11, 2, 1)

    outputs = after(sequencer, mixed, TargetAnswered(mixed, 0), BufferAnswered(mixed, OUT_OF_ORDER))

    assert outputs == [Ask(mixed, LogRole.BUFFER)]


def test_a_producer_that_B_has_forgotten_goes_on_where_the_connection_knows_it() -> None:
    sequencer, delayed = session(11, 6, 4), batch(11, 1, 1)

    assert after(sequencer, delayed, TargetAnswered(delayed, MAY_WRITE)) == [SendBuffer(delayed, 4)]


def test_a_producer_that_T_has_forgotten_goes_on() -> None:
    sequencer, mixed = Sequencer(), batch(100, 2, 1)
    answers = (
        AskAnswered(mixed, LogRole.BUFFER, 4),
        AskAnswered(mixed, LogRole.TARGET, None),
        AskAnswered(mixed, LogRole.BUFFER, 4),
    )

    assert after(sequencer, mixed, *answers) == [SendTarget(mixed, 96)]


def test_a_producer_that_both_have_forgotten_goes_on_so_that_another_connection_finds_its_place() -> None:
    sequencer, delayed = Sequencer(), batch(100, 2, 2)

    ask_answered(sequencer, after(sequencer, delayed))
    assert after(sequencer, TargetAnswered(delayed, MAY_WRITE)) == [SendBuffer(delayed, 100)]
    sequencer, plain = Sequencer(), batch(102, 2, 0)
    assert ask_answered(sequencer, after(sequencer, plain), buffer=102) == [SendTarget(plain, 0)]


def test_without_sequences_everything_goes_as_it_came_in_the_same_order() -> None:
    sequencer, mixed = Sequencer(), Batch("orders", 0, -1, -1, -1, 3, 1)
    plain = Batch("orders", 0, -1, -1, -1, 1, 0)

    assert after(sequencer, mixed) == [SendTarget(mixed, -1)]
    assert after(sequencer, plain) == []
    assert after(sequencer, TargetAnswered(mixed, 0)) == [SendBuffer(mixed, -1)]
    assert after(sequencer, BufferAnswered(mixed, None)) == [Answer(mixed, 19, verbatim=False), SendTarget(plain, -1)]


def test_an_error_for_a_producer_that_takes_no_answers_ends_the_connection() -> None:
    sequencer, silent = Sequencer(), Batch("orders", 0, -1, -1, -1, 3, 1, acks=0)

    outputs = after(sequencer, silent, TargetAnswered(silent, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    assert [type(output) for output in outputs] == [Close]


def test_success_for_a_producer_that_takes_no_answers_is_passed_to_the_relay() -> None:
    sequencer, silent = Sequencer(), Batch("orders", 0, -1, -1, -1, 3, 1, acks=0)

    outputs = after(sequencer, silent, TargetAnswered(silent, 0), BufferAnswered(silent, 0))

    assert outputs == [Answer(silent, 0, verbatim=True)]


def test_a_question_without_an_answer_ends_the_connection() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 1)

    assert [type(output) for output in after(sequencer, first, AskFailed(first))] == [Close]


def test_partitions_and_producers_do_not_wait_for_each_other() -> None:
    sequencer = Sequencer()
    one, other = Batch("orders", 0, -1, -1, -1, 2, 1), Batch("orders", 1, -1, -1, -1, 2, 1)

    assert after(sequencer, one) == [SendTarget(one, -1)]
    assert after(sequencer, other) == [SendTarget(other, -1)]


def test_beyond_the_bound_an_idle_producer_is_forgotten_and_asked_for_anew() -> None:
    sequencer, first, second = Sequencer(gates_max=1), batch(10, 1, 0), Batch("orders", 1, 7, 0, 3, 1, 0)
    ask_answered(sequencer, after(sequencer, first))
    after(sequencer, TargetAnswered(first, 0), second)

    assert after(sequencer, again := batch(11, 1, 0)) == [Ask(again, LogRole.BUFFER)]


def test_an_answer_to_no_question_is_a_bug() -> None:
    sequencer, first = Sequencer(), batch(10, 3, 1)
    after(sequencer, first)

    with pytest.raises(Bug):
        sequencer.handle(BufferAnswered(first, 0))
