"""A worker on the wire, cut off at every request that it makes: before the broker hears of it, and after."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafkawire.protocol.apis import ApiKey
from tests.brokers.scripted import CUT_AFTER, CUT_BEFORE, FORWARD, Act, Asked
from tests.integration.kafka.behind import Behind, Once, behind_a_fault
from tests.integration.kafka.conftest import Place, soon

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

Boundary = tuple[int, int]
"""An API, and which of its requests since the cycle began."""

CUTS: dict[str, Act] = {"before": CUT_BEFORE, "after": CUT_AFTER}
FETCHES = 2
"""Of those in a cycle: how many there are depends on how long the broker lets us wait."""


@pytest.fixture
def behind(kafka: "KafkaAt") -> Iterator[Behind]:
    with ExitStack() as stack:
        yield Behind(Place(kafka, stack), stack)


def boundaries(behind: Behind, *, cold: bool = False) -> list[Boundary]:
    """Every request of a cycle without a fault: those that two of them have in common, because one may have to ask
    again what another did not."""
    found = [_requests(behind, cold) for _ in range(2)]
    return sorted(found[0] & found[1])


def _requests(behind: Behind, cold: bool) -> set[Boundary]:
    counts: Counter[int] = Counter()

    def script(asked: Asked) -> Act:
        counts[asked.api] += behind.is_ours(asked)
        return FORWARD

    with behind.scripted.following(script):
        if cold:
            behind.forget()
        behind.send()
        behind.settle()
    behind.check()
    return {
        (api, nth)
        for api, count in counts.items()
        for nth in range(1, 1 + (min(count, FETCHES) if api == ApiKey.FETCH else count))
    }


def cut_everywhere(behind: Behind, at: list[Boundary], *, cold: bool = False) -> dict[tuple[str, int, str], int]:
    """How often each was cut."""
    exercised: dict[tuple[str, int, str], int] = {}
    for api, nth in at:
        for name, act in CUTS.items():
            script = Once(behind, api, nth, act)
            behind_a_fault(behind, script, first(behind, script, api, cold))
            exercised[ApiKey(api).name, nth, name] = script.fired
    return exercised


def first(behind: Behind, script: Once, api: int, cold: bool) -> Callable[[], None]:
    """A fetch is asked before there is anything to bring: so that the one that is cut off brings it."""

    def wait() -> None:
        if cold:
            behind.forget()
        if api == ApiKey.FETCH:
            soon(lambda: (behind.poll(), script.fired)[1])

    return wait


def test_a_commit_and_its_fetches_cut_off_anywhere_deliver_everything_once(behind: Behind) -> None:
    at = boundaries(behind)
    exercised = cut_everywhere(behind, at)
    print(exercised, behind.met)
    assert {ApiKey(api).name for api, _ in at} >= {"FETCH", "PRODUCE", "TXN_OFFSET_COMMIT", "END_TXN"}
    assert len(exercised) == 2 * len(at)
    assert set(exercised.values()) == {1}
    assert behind.scripted.cuts == len(exercised)
    assert behind.met["CommitAborted"] > 0


def test_a_producer_that_begins_anew_and_is_cut_off_anywhere_delivers_everything_once(behind: Behind) -> None:
    at = boundaries(behind, cold=True)
    exercised = cut_everywhere(behind, [one for one in at if one[0] != ApiKey.FETCH], cold=True)
    print(exercised, behind.met)
    assert {ApiKey(api).name for api, _ in at} >= {"API_VERSIONS", "METADATA", "FIND_COORDINATOR", "INIT_PRODUCER_ID"}
    assert set(exercised.values()) == {1}


def test_a_commit_whose_partitions_are_added_one_by_one_delivers_everything_once(
    kafka: "KafkaAt",
) -> None:
    with ExitStack() as stack:
        behind = Behind(Place(kafka, stack), stack, explicit=True)
        at = [one for one in boundaries(behind) if one[0] != ApiKey.FETCH]
        exercised = cut_everywhere(behind, at)
    print(exercised, behind.met)
    assert {ApiKey(api).name for api, _ in at} == {
        "ADD_PARTITIONS_TO_TXN",
        "PRODUCE",
        "ADD_OFFSETS_TO_TXN",
        "TXN_OFFSET_COMMIT",
        "END_TXN",
    }
    assert set(exercised.values()) == {1}
