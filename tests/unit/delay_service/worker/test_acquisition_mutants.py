"""The rules of `delay_service.worker.acquisition`, each broken, and the test that notices. See `tests.mutation`."""

from collections.abc import Callable
from functools import partial

import pytest

from mq.errors import Fenced
from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, constant, drop, never, part, value, without, written
from tests.unit.delay_service.taking_over import MAILS, Scene
from tests.unit.delay_service.worker import test_acquisition as tests

ACQUISITION = "delay_service.worker.acquisition"
CAUGHT: tuple[tuple[Mutant, Callable[[Scene], None]], ...] = (
    (
        Mutant("a shard is asked about while a commit of it has not ended", "ask-completed", without("values[2]")),
        tests.test_a_shard_that_was_lost_with_a_commit_in_flight_is_taken_over_behind_it,
    ),
    (
        Mutant("an operator's takeover does not wait for the commit in flight", "take-completed", drop),
        tests.test_an_operator_takes_over_at_once_and_waits_for_a_commit_that_the_shard_has_part_in,
    ),
    (
        Mutant("what is found counts for whoever has the shard now", "answer-held", value(constant(True))),
        partial(tests.test_what_was_found_of_a_shard_that_has_gone_and_come_back_since_is_void, answered=0),
    ),
    (
        Mutant(
            "a claim counts for whoever has the shard now",
            "claim-held",
            value(
                written(
                    "{${key}: ${value}._replace(owned=${generators[0].ifs[0].func}.__self__._owned[${key}])"
                    " for ${generators[0].target} in ${generators[0].iter}}"
                )
            ),
        ),
        tests.test_an_answer_to_a_claim_of_a_shard_that_has_gone_is_void,
    ),
    (
        Mutant("a claim that failed is started", "claim-failed", value(written("held"))),
        partial(tests.test_a_claim_that_is_not_committed_is_made_anew, error=Fenced([MAILS])),
    ),
    (
        Mutant(
            "the end of the log is looked up beside the claim",
            "fence-first",
            value(written("[${args[1].args[0]}, self._measure_all(${args[0]})][1]")),
        ),
        tests.test_nothing_is_measured_before_the_claim_has_been_committed,
    ),
    (
        Mutant("what is left of a round goes on although the worker stops", "ask-closing", never),
        partial(tests.test_a_worker_that_stops_leaves_the_rest_of_a_takeover_out, answered=0),
    ),
    (
        Mutant("shards that have gone are asked about", "ask-held", at("iter", part("args[1]"))),
        tests.test_shards_that_are_not_ours_any_more_are_not_asked_about,
    ),
    (
        Mutant("a shard that goes while its index is prepared is started", "start-held", never),
        tests.test_a_shard_that_goes_while_its_index_is_prepared_is_not_touched_any_more,
    ),
    (
        Mutant("an index is prepared at once", "index-steps", value(at("value", written("list(${})")))),
        tests.test_an_index_is_prepared_in_steps_between_which_other_shards_deliver,
    ),
    (
        Mutant("each waiting shard turns the loop without a pause", "idle-takeover", never),
        tests.test_the_worker_does_not_turn_idly_while_a_takeover_is_under_way,
    ),
)
MUTANTS = tuple(mutant for mutant, _ in CAUGHT)


@pytest.mark.parametrize(("mutant", "check"), CAUGHT, ids=[mutant.broken for mutant in MUTANTS])
def test_a_rule_that_is_broken_is_noticed(
    mutant: Mutant, check: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = mutant.module
    user = "delay_service.worker.loop" if name == ACQUISITION else "tests.unit.delay_service.harness"
    made = "Acquisition" if name == ACQUISITION else "Worker"
    monkeypatch.setattr(f"{user}.{made}", getattr(load(mutant, (name,))[name], made))

    with pytest.raises(AssertionError):
        check(Scene())
