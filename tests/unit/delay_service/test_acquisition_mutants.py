"""The rules of `delay_service.acquisition`, each broken in one line, and the test that notices."""

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest

from mq.errors import Fenced
from tests.simulation.mutants import changed
from tests.unit.delay_service import test_acquisition as tests
from tests.unit.delay_service.taking_over import MAILS, Scene

WORKER, ACQUISITION = "delay_service.worker", "delay_service.acquisition"
MUTANTS: dict[str, tuple[str, tuple[str, str], Callable[[Scene], None]]] = {
    "a shard is asked about while a commit of it is unsettled": (
        WORKER,
        (
            "if owned.core is None and owned.ready(now_s) and owned.id not in unsettled",
            "if owned.core is None and owned.ready(now_s)",
        ),
        tests.test_a_shard_that_was_lost_with_a_commit_in_flight_is_taken_over_behind_it,
    ),
    "an operator's takeover does not wait for the commit in flight": (
        WORKER,
        ("self.wait_for_commit()  # it may have part in it", "pass"),
        tests.test_an_operator_takes_over_at_once_and_waits_for_a_commit_that_the_shard_has_part_in,
    ),
    "what is found counts for whoever has the shard now": (
        ACQUISITION,
        ("return self._holds(answer[0])", "return True"),
        partial(tests.test_what_was_found_of_a_shard_that_has_gone_and_come_back_since_is_void, answered=0),
    ),
    "a claim counts for whoever has the shard now": (
        ACQUISITION,
        (
            "held = {shard: found for shard, found in claims.items() if self._holds(found[0])}",
            "held = {shard: (self._holds.__self__._owned[shard], found[1]) for shard, found in claims.items()}",
        ),
        tests.test_an_answer_to_a_claim_of_a_shard_that_has_gone_is_void,
    ),
    "a claim that failed is started": (
        ACQUISITION,
        ("return {}", "return held"),
        partial(tests.test_a_claim_that_is_not_committed_is_made_anew, error=Fenced([MAILS])),
    ),
    "the end of the log is looked up beside the claim": (
        ACQUISITION,
        (
            "return Claiming(claims, self._waking(self._commit(batch)))",
            "return [self._commit(batch), self._measure_all(claims)][1]",
        ),
        tests.test_nothing_is_measured_before_the_claim_has_been_committed,
    ),
    "what is left of a round goes on although the worker stops": (
        ACQUISITION,
        ("if self._closing.is_set():", "if False:"),
        partial(tests.test_a_worker_that_stops_leaves_the_rest_of_a_takeover_out, answered=0),
    ),
    "shards that have gone are asked about": (
        ACQUISITION,
        ("for owned in filter(self._holds, shards):", "for owned in shards:"),
        tests.test_shards_that_are_not_ours_any_more_are_not_asked_about,
    ),
    "a shard that goes while its index is prepared is started": (
        ACQUISITION,
        ("if not self._holds(owned):", "if False:"),
        tests.test_a_shard_that_goes_while_its_index_is_prepared_is_not_touched_any_more,
    ),
    "an index is prepared at once": (
        ACQUISITION,
        ("yield from preparing(index, chosen)", "yield from list(preparing(index, chosen))"),
        tests.test_an_index_is_prepared_in_steps_between_which_other_shards_deliver,
    ),
    "each waiting shard turns the loop without a pause": (
        WORKER,
        ("if owned.core is None and self._acquisition.is_under_way:", "if False:"),
        tests.test_the_worker_does_not_turn_idly_while_a_takeover_is_under_way,
    ),
}


@pytest.mark.parametrize("broken", sorted(MUTANTS))
def test_a_rule_that_is_broken_is_noticed(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change, check = MUTANTS[broken]
    mutant, source = ModuleType(name), changed(name, (change,))
    monkeypatch.setitem(sys.modules, name, mutant)
    exec(compile(source, f"<mutant of {name}>", "exec"), mutant.__dict__)
    user = "delay_service.worker" if name == ACQUISITION else "tests.unit.delay_service.harness"
    made = "Acquisition" if name == ACQUISITION else "Worker"
    monkeypatch.setattr(f"{user}.{made}", getattr(mutant, made))

    with pytest.raises(AssertionError):
        check(Scene())
