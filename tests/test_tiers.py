"""tests.tiers: what `make test` leaves out it leaves out on purpose."""

from pathlib import Path

import pytest

from tests.fault.server import ROOT
from tests.tiers import LEFT_OUT, NEVER_LEFT_OUT, Collected, examples, missed, modules_left_out, sample

KEPT: list[Collected] = [(nodeid, False) for nodeid in NEVER_LEFT_OUT]


@pytest.fixture
def everything(pytestconfig: pytest.Config) -> list[Collected]:
    """All tests there are. Skips where only some of them were asked for."""
    from tests.conftest import COLLECTED

    tests = pytestconfig.stash[COLLECTED]
    files = {str(path.relative_to(ROOT)) for path in Path(ROOT, "tests").rglob("test_*.py")}
    if missing := files - {nodeid.partition("::")[0] for nodeid, _ in tests}:
        pytest.skip(f"{len(missing)} modules were not asked for")
    return tests


def test_each_run_has_something_of_every_module_but_of_those_with_a_reason(everything: list[Collected]) -> None:
    assert modules_left_out(everything) == set(LEFT_OUT)


def test_each_run_has_what_finds_a_lost_doubled_or_early_message(everything: list[Collected]) -> None:
    assert missed(everything) == []


def test_a_module_is_left_out_when_each_of_its_tests_is() -> None:
    tests = [("a.py::x", True), ("a.py::y", True), ("b.py::x", True), ("b.py::y", False)]
    assert modules_left_out(tests) == {"a.py"}


def test_what_must_be_in_each_run_is_missed_when_it_is_left_out_or_gone() -> None:
    assert missed(KEPT) == []
    assert missed(KEPT[1:]) == [KEPT[0][0]]
    assert missed([(KEPT[0][0], True), *KEPT[1:]]) == [KEPT[0][0]]


def test_of_a_sample_the_first_and_every_so_many_th_is_in_each_run() -> None:
    marked = [bool(one.marks) for one in sample("abcde", every=2)]
    assert marked == [False, True, False, True, False]


def test_a_property_is_tried_with_some_examples_at_least() -> None:
    assert examples(1) >= 1
