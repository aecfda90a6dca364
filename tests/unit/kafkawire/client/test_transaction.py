"""The machine of a transactional producer, by its rules; against a model of the brokers it is tried elsewhere."""

import pytest

from delayline.errors import Bug
from kafkawire.client.steps import (
    NO_ANSWER,
    OUT_OF_TIME,
    Aborted,
    AddOffsets,
    AddPartitions,
    Begin,
    CommitOffsets,
    Committed,
    Done,
    End,
    Expired,
    Identity,
    Initialise,
    Lost,
    Open,
    Opened,
    Place,
    Refused,
    Step,
    Unknown,
    Unsent,
    Write,
)
from kafkawire.client.transaction import SEQUENCES, Machine, State
from kafkawire.protocol.errors import ErrorCode

A, B = ("orders", 0), ("orders", 1)
ME, NEXT = Identity(7, 3), Identity(7, 4)

implicit_or_not = pytest.mark.parametrize("implicit", [True, False])


def opened(implicit: bool = True) -> Machine:
    machine = Machine()
    assert machine.advance(Open()) == [Step(Initialise())]
    assert machine.advance(Opened(ME, implicit)) == []
    return machine


def writing(*batches: tuple[Place, int], implicit: bool = True, offsets: bool = True) -> tuple[Machine, list[Write]]:
    machine = opened(implicit)
    return machine, begun(machine, *batches or ((A, 5), (B, 2)), offsets=offsets)


def begun(machine: Machine, *batches: tuple[Place, int], offsets: bool = True) -> list[Write]:
    steps = machine.advance(Begin(batches, offsets))
    if not machine.implicit:
        (step,) = steps
        steps = machine.advance(Done(step.request))
    writes = [step.request for step in steps]
    assert all(isinstance(write, Write) for write in writes)
    return writes  # type: ignore[return-value]


def requested(steps: list[Step]) -> list[object]:
    return [step.request for step in steps]


def ending(implicit: bool = True) -> Machine:
    """EndTxn is under way."""
    machine, writes = writing((A, 1), implicit=implicit)
    (step,) = machine.advance(Done(writes[0]))
    if not implicit:
        (step,) = machine.advance(Done(step.request))
    assert requested(machine.advance(Done(step.request))) == [End(ME)]
    return machine


# --- what goes well


def test_with_implicit_partitions_a_commit_is_writes_offsets_and_the_end() -> None:
    machine, writes = writing()
    assert machine.advance(Done(writes[0])) == []
    assert machine.advance(Done(writes[1])) == [Step(CommitOffsets(ME))]
    assert machine.advance(Done(CommitOffsets(ME))) == [Step(End(ME))]
    assert machine.advance(Done(End(ME), NEXT)) == []
    assert (machine.outcome, machine.identity, machine.state) == (Committed(), NEXT, State.READY)


def test_elsewhere_partitions_and_offsets_are_added_first() -> None:
    machine = opened(implicit=False)
    assert machine.advance(Begin([(A, 5), (B, 2), (A, 1)], True)) == [Step(AddPartitions(ME, (A, B)))]
    writes = machine.advance(Done(AddPartitions(ME, (A, B))))
    assert requested(writes) == [Write(ME, A, 0, 0), Write(ME, B, 0, 1), Write(ME, A, 5, 2)]
    steps = [step for write in writes for step in machine.advance(Done(write.request))]
    assert steps == [Step(AddOffsets(ME))]
    assert machine.advance(Done(AddOffsets(ME))) == [Step(CommitOffsets(ME))]
    assert machine.advance(Done(CommitOffsets(ME))) == [Step(End(ME))]
    machine.advance(Done(End(ME)))
    assert (machine.outcome, machine.identity) == (Committed(), ME)


def test_without_offsets_the_end_follows_the_writes() -> None:
    machine, writes = writing((A, 1), offsets=False)
    assert machine.advance(Done(writes[0])) == [Step(End(ME))]


@implicit_or_not
def test_offsets_alone_are_a_transaction(implicit: bool) -> None:
    machine = opened(implicit)
    expected = CommitOffsets(ME) if implicit else AddOffsets(ME)
    assert requested(machine.advance(Begin([], True))) == [expected]


def test_nothing_at_all_is_committed_without_a_word() -> None:
    machine = opened()
    assert machine.advance(Begin([], False)) == []
    assert (machine.outcome, machine.identity) == (Committed(), ME)


def test_sequences_begin_anew_with_the_epoch_that_a_commit_gives() -> None:
    machine, writes = writing((A, 5), offsets=False)
    machine.advance(Done(writes[0]))
    machine.advance(Done(End(ME), NEXT))
    assert begun(machine, (A, 1)) == [Write(NEXT, A, 0, 0)]


def test_sequences_go_on_where_the_epoch_outlives_a_commit() -> None:
    machine, writes = writing((A, 5), implicit=False, offsets=False)
    machine.advance(Done(writes[0]))
    machine.advance(Done(End(ME)))
    assert begun(machine, (A, 2), (A, 1)) == [Write(ME, A, 5, 0), Write(ME, A, 7, 1)]


def test_sequences_begin_anew_behind_the_last_one() -> None:
    _, writes = writing((A, SEQUENCES - 1), (A, 3), (A, 1), implicit=False)
    assert [write.sequence for write in writes] == [0, SEQUENCES - 1, 2]


# --- what is refused for the moment


@pytest.mark.parametrize(
    "code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE]
)
def test_a_write_refused_for_the_moment_is_sent_again_under_its_sequence(code: ErrorCode) -> None:
    machine, writes = writing((A, 1))
    assert machine.advance(Refused(writes[0], code)) == [Step(writes[0], again=True)]
    assert machine.advance(Done(writes[0])) == [Step(CommitOffsets(ME))]


def test_a_write_for_another_leader_is_sent_there_once_the_others_have_answered() -> None:
    machine, writes = writing()
    assert machine.advance(Refused(writes[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)) == []
    assert machine.advance(Done(writes[1])) == [Step(writes[0], again=True, elsewhere=True)]


@pytest.mark.parametrize("code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CORRUPT_MESSAGE])
def test_writes_to_one_partition_are_sent_again_together_and_in_order(code: ErrorCode) -> None:
    machine, writes = writing((A, 5), (A, 5), (B, 1), (A, 5))
    machine.advance(Done(writes[0]))
    machine.advance(Refused(writes[1], code))
    machine.advance(Refused(writes[3], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert requested(machine.advance(Done(writes[2]))) == [writes[1], writes[3]]


def test_a_sequence_that_is_out_of_order_by_itself_ends_the_transaction() -> None:
    machine, writes = writing((A, 5), (A, 5))
    machine.advance(Done(writes[0]))
    assert machine.advance(Refused(writes[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)) == []
    assert machine.outcome == Aborted(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_what_could_not_be_sent_is_sent_again_to_whoever_serves_it_now() -> None:
    machine = Machine()
    machine.advance(Open())
    assert machine.advance(Unsent(Initialise())) == [Step(Initialise(), again=True, elsewhere=True)]
    machine, writes = writing((A, 1))
    assert machine.advance(Unsent(writes[0])) == [Step(writes[0], again=True, elsewhere=True)]


def test_the_last_acknowledgement_alone_lets_the_offsets_go() -> None:
    machine, writes = writing((A, 1), (B, 1))
    machine.advance(Done(writes[1]))
    assert requested(machine.advance(Refused(writes[0], ErrorCode.NOT_LEADER_OR_FOLLOWER))) == [writes[0]]
    assert machine.state is State.WRITING


def test_coordinators_that_are_busy_or_have_moved_are_asked_again() -> None:
    machine = opened(implicit=False)
    machine.advance(Begin([(A, 1)], True))
    request = AddPartitions(ME, (A,))
    busy = Refused(request, ErrorCode.CONCURRENT_TRANSACTIONS, ((A, ErrorCode.CONCURRENT_TRANSACTIONS),))
    assert machine.advance(busy) == [Step(request, again=True)]
    moved = Refused(request, ErrorCode.NOT_COORDINATOR, ((A, ErrorCode.NOT_COORDINATOR),))
    assert machine.advance(moved) == [Step(request, again=True, elsewhere=True)]


# --- what is refused for good


def test_partitions_that_take_no_records_are_named_once_all_have_answered() -> None:
    machine, writes = writing((A, 1), (B, 1), (("orders", 2), 1))
    machine.advance(Refused(writes[0], ErrorCode.MESSAGE_TOO_LARGE))
    machine.advance(Done(writes[1]))
    assert machine.outcome is None
    machine.advance(Refused(writes[2], ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    refused = (A, ErrorCode.MESSAGE_TOO_LARGE), (("orders", 2), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert machine.outcome == Aborted(ErrorCode.MESSAGE_TOO_LARGE, refused)
    assert machine.state is State.SHUT


def test_a_partition_that_may_not_be_added_is_named_and_the_unattempted_are_not() -> None:
    machine = opened(implicit=False)
    machine.advance(Begin([(A, 1), (B, 1)], True))
    of_places = (A, ErrorCode.OPERATION_NOT_ATTEMPTED), (B, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    machine.advance(Refused(AddPartitions(ME, (A, B)), ErrorCode.TOPIC_AUTHORIZATION_FAILED, of_places))
    failed = (B, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert machine.outcome == Aborted(ErrorCode.TOPIC_AUTHORIZATION_FAILED, (failed,))


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_ABORTABLE])
def test_what_is_no_partitions_fault_ends_the_transaction_without_naming_one(code: ErrorCode) -> None:
    machine, writes = writing()
    assert machine.advance(Refused(writes[0], code)) == []
    assert (machine.outcome, machine.identity, machine.state) == (Aborted(code), None, State.SHUT)


def test_refused_offsets_end_the_transaction_with_the_groups_reason() -> None:
    machine, writes = writing((A, 1))
    machine.advance(Done(writes[0]))
    machine.advance(Refused(CommitOffsets(ME), 22))
    assert machine.outcome == Aborted(22)


def test_after_an_abort_the_next_transaction_has_to_be_opened() -> None:
    machine, writes = writing()
    machine.advance(Refused(writes[0], ErrorCode.PRODUCER_FENCED))
    with pytest.raises(Bug):
        machine.advance(Begin([(A, 1)], False))
    assert machine.advance(Open()) == [Step(Initialise())]
    machine.advance(Opened(NEXT, True))
    assert begun(machine, (A, 1)) == [Write(NEXT, A, 0, 0)]


# --- answers that are lost


def test_a_lost_write_is_not_sent_again_but_ends_the_transaction() -> None:
    machine, writes = writing()
    assert machine.advance(Lost(writes[0])) == []
    assert (machine.outcome, machine.identity) == (Aborted(NO_ANSWER), None)


def test_lost_offsets_are_not_sent_again_but_end_the_transaction() -> None:
    machine, writes = writing((A, 1))
    machine.advance(Done(writes[0]))
    assert machine.advance(Lost(CommitOffsets(ME))) == []
    assert machine.outcome == Aborted(NO_ANSWER)


def test_a_lost_request_for_a_producer_id_is_repeated() -> None:
    machine = Machine()
    machine.advance(Open())
    assert machine.advance(Lost(Initialise())) == [Step(Initialise(), again=True, elsewhere=True)]


def test_a_lost_end_is_repeated_until_it_is_known_to_be_a_commit() -> None:
    machine = ending()
    assert machine.advance(Lost(End(ME))) == [Step(End(ME), again=True, elsewhere=True)]
    assert machine.advance(Refused(End(ME), ErrorCode.CONCURRENT_TRANSACTIONS)) == [Step(End(ME), again=True)]
    assert machine.advance(Done(End(ME), NEXT)) == []
    assert (machine.outcome, machine.identity, machine.state) == (Committed(), NEXT, State.READY)


def test_a_lost_end_whose_epoch_is_not_ours_any_more_is_unknown() -> None:
    machine = ending()
    machine.advance(Lost(End(ME)))
    machine.advance(Refused(End(ME), ErrorCode.PRODUCER_FENCED))
    assert (machine.outcome, machine.identity) == (Unknown(ErrorCode.PRODUCER_FENCED), None)


def test_a_lost_end_that_nobody_answers_for_in_time_is_unknown() -> None:
    machine = ending()
    machine.advance(Lost(End(ME)))
    machine.advance(Unsent(End(ME)))
    machine.advance(Expired())
    assert machine.outcome == Unknown(OUT_OF_TIME)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, -1])
def test_an_end_refused_in_a_way_that_may_follow_its_logging_counts_as_a_doubt(code: int) -> None:
    machine = ending()
    assert machine.advance(Refused(End(ME), code)) == [Step(End(ME), again=True, elsewhere=True)]
    machine.advance(Refused(End(ME), ErrorCode.PRODUCER_FENCED))
    assert machine.outcome == Unknown(ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE])
def test_an_end_that_is_refused_for_good_at_once_was_not_carried_out(code: ErrorCode) -> None:
    machine = ending()
    machine.advance(Refused(End(ME), code))
    assert machine.outcome == Aborted(code)


def test_an_end_that_never_left_was_not_carried_out() -> None:
    machine = ending()
    assert machine.advance(Unsent(End(ME))) == [Step(End(ME), again=True, elsewhere=True)]
    machine.advance(Expired())
    assert machine.outcome == Aborted(OUT_OF_TIME)


def test_after_a_doubt_an_epoch_that_would_outlive_the_commit_is_let_go_of() -> None:
    machine = ending(implicit=False)
    machine.advance(Lost(End(ME)))
    machine.advance(Done(End(ME)))
    assert (machine.outcome, machine.identity, machine.state) == (Committed(), None, State.SHUT)


def test_a_commit_that_does_not_name_the_next_epoch_is_followed_by_a_new_producer_id() -> None:
    machine = ending()
    machine.advance(Done(End(ME)))
    assert (machine.outcome, machine.state) == (Committed(), State.SHUT)


# --- time


def test_partitions_that_do_not_answer_in_time_are_named() -> None:
    machine, writes = writing()
    machine.advance(Done(writes[1]))
    machine.advance(Expired())
    assert machine.outcome == Aborted(OUT_OF_TIME, ((A, OUT_OF_TIME),))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE])
def test_a_topic_that_is_not_there_in_time_and_batches_that_all_arrive_damaged_are_reported(code: ErrorCode) -> None:
    machine, writes = writing((A, 1))
    machine.advance(Refused(writes[0], code))
    machine.advance(Expired())
    assert machine.outcome == Aborted(code, ((A, code),))


@implicit_or_not
def test_a_transaction_before_that_does_not_end_in_time_is_the_reason(implicit: bool) -> None:
    machine = opened(implicit)
    (step,) = machine.advance(Begin([(A, 1)], True))
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    machine.advance(Refused(step.request, busy, () if implicit else ((A, busy),)))
    machine.advance(Expired())
    assert machine.outcome == Aborted(busy)


def test_a_transaction_before_that_has_ended_since_is_no_reason() -> None:
    machine = Machine()
    machine.advance(Open())
    machine.advance(Refused(Initialise(), ErrorCode.CONCURRENT_TRANSACTIONS))
    machine.advance(Opened(ME, True))
    begun(machine, (A, 1))
    machine.advance(Expired())
    assert machine.outcome == Aborted(OUT_OF_TIME, ((A, OUT_OF_TIME),))


def test_a_transaction_before_that_let_partitions_be_added_is_no_reason_for_writes_that_take_too_long() -> None:
    machine = opened(implicit=False)
    (step,) = machine.advance(Begin([(A, 1)], True))
    machine.advance(
        Refused(step.request, ErrorCode.CONCURRENT_TRANSACTIONS, ((A, ErrorCode.CONCURRENT_TRANSACTIONS),))
    )
    machine.advance(Done(step.request))
    machine.advance(Expired())
    assert machine.outcome == Aborted(OUT_OF_TIME, ((A, OUT_OF_TIME),))


def test_a_producer_id_that_is_not_given_in_time_is_an_error_with_the_reason() -> None:
    for event, code in (
        (Refused(Initialise(), ErrorCode.CONCURRENT_TRANSACTIONS), ErrorCode.CONCURRENT_TRANSACTIONS),
        (Unsent(Initialise()), OUT_OF_TIME),
    ):
        machine = Machine()
        machine.advance(Open())
        machine.advance(event)
        machine.advance(Expired())
        assert machine.outcome == Aborted(code)


# --- what cannot be


def test_an_event_that_the_state_does_not_know_is_a_bug() -> None:
    machine, writes = writing()
    machine.advance(Done(writes[0]))
    for event in (Open(), Begin([], False), Done(writes[0]), Done(End(ME)), Opened(NEXT, True), Lost(End(ME))):
        with pytest.raises(Bug):
            machine.advance(event)
