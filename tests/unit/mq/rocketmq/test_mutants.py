"""The rules of owners on RocketMQ, each broken, and the test that notices. See `tests.mutation`."""

from collections.abc import Callable

import pytest

from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, constant, drop, never, part, plus, value, without
from tests.unit.mq.rocketmq import test_ownership, test_rows, test_source, test_topology

CAUGHT: tuple[tuple[Mutant, str, Callable[[], None]], ...] = (
    (
        Mutant("a takeover does not wait for what its broker had read", "landing", drop),
        "scene.Ownership",
        test_ownership.test_what_the_broker_carries_out_after_a_sessions_end_is_read_back,
    ),
    (
        Mutant("a takeover reads what can be seen, not what is stored", "barrier", value(constant(0))),
        "scene.Ownership",
        test_ownership.test_what_is_stored_and_not_shown_yet_is_read_back,
    ),
    (
        Mutant("a claim counts although another was before it", "first-claim", never),
        "scene.Ownership",
        test_ownership.test_of_two_that_claim_at_once_the_first_in_the_journal_has_the_shard,
    ),
    (
        Mutant("a broker that knows no session reports that all have ended", "session-listed", never),
        "scene.Session",
        test_ownership.test_a_broker_that_does_not_know_the_asker_reports_nothing_of_others,
    ),
    (
        Mutant("a session counts for as long as it is listed", "session-ended", value(part("left"))),
        "scene.Session",
        test_ownership.test_a_session_that_is_listed_behind_its_connections_end_does_not_count,
    ),
    (
        Mutant("a commit goes on although an earlier step is open", "recovered-first", never),
        "scene.RocketmqSink",
        test_ownership.test_nothing_is_committed_while_an_earlier_step_is_open,
    ),
    (
        Mutant("a session goes on although a request's fate is unknown", "unknown-ends", drop),
        "scene.PartSender",
        test_ownership.test_a_lost_answer_ends_the_session,
    ),
    (
        Mutant("a takeover reads back while an answer is outstanding", "answered", never),
        "scene.Ownership",
        test_ownership.test_what_is_answered_late_is_not_done_a_second_time,
    ),
    (
        Mutant("a step that lands behind a later claim counts", "journal-late", without("guard")),
        "scene.Journals",
        test_ownership.test_a_step_that_lands_behind_a_later_claim_has_not_happened,
    ),
    (
        Mutant("a shard that is released while it is being taken stays with the session", "taken-unwanted", never),
        "scene.Ownership",
        test_ownership.test_a_shard_that_is_released_while_it_is_being_taken_goes_to_others,
    ),
    (
        Mutant("a message of another program stops a shard", "journal-foreign", value(part("generators[0].iter"))),
        "scene.Journals",
        test_ownership.test_messages_of_other_programs_in_a_journal_change_nothing,
    ),
    (
        Mutant("a step is written down without the rows that are owed", "rows-carried", value(constant(()))),
        "scene.RocketmqSink",
        test_rows.test_a_crash_loses_no_rows_that_waited,
    ),
    (
        Mutant("rows that are owed are left out with a step that has not happened", "rows-owed", value(constant(0))),
        "scene.Ownership",
        test_rows.test_a_step_that_has_not_happened_takes_no_rows_of_others_with_it,
    ),
    (
        Mutant(
            "a step that has not happened counts when rows are stored",
            "done-happened",
            at("value.args[1]", plus(1)),
        ),
        "scene.Ownership",
        test_rows.test_rows_that_are_stored_when_a_step_has_not_happened_do_not_make_it_count,
    ),
    (
        Mutant("what is gone from a journal is passed over", "read-whole", never),
        "scene.Journals",
        test_ownership.test_a_journal_of_which_records_are_gone_is_not_read_past_them,
    ),
    (
        Mutant("what is gone from a log is passed over", "read-gap", never),
        "test_source.RocketmqSource",
        test_source.test_a_shard_of_which_messages_are_gone_is_read_up_to_them_and_no_further,
    ),
    (
        Mutant("a topic is forgotten with its broker", "down-kept", drop),
        "test_topology.Topology",
        test_topology.test_a_broker_that_is_not_registered_keeps_its_queues,
    ),
)
MUTANTS = tuple(mutant for mutant, _, _ in CAUGHT)


@pytest.mark.parametrize(("mutant", "used", "check"), CAUGHT, ids=[mutant.broken for mutant in MUTANTS])
def test_a_rule_that_is_broken_is_noticed(
    mutant: Mutant, used: str, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    broken = getattr(load(mutant, (mutant.module,))[mutant.module], used.rpartition(".")[2])
    monkeypatch.setattr(f"tests.unit.mq.rocketmq.{used}", broken)

    with pytest.raises(AssertionError):
        check()
