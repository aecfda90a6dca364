"""tests.sharing: who takes what, without workers."""

from types import SimpleNamespace
from typing import Any

from tests.fault.server import ROOT
from tests.sharing import BUSY, SPARK_OF_ITS_OWN, WAITING, FromBothEnds, place

MODULES = ["front", "second", "middle", "last but one", "last"]
TESTS = [f"{module}::{name}" for module in MODULES for name in ("a", "b", "c")]


class Node:
    """A worker that is assigned what to run, and runs nothing."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += [TESTS[index].split("::")[0] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(*nodes: Any) -> FromBothEnds:
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"] * len(nodes), option=option)
    log: Any = lambda *words: None  # noqa: E731
    log.loadscopesched = log
    made = FromBothEnds(config, log)
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, TESTS)
    made.schedule()
    return made


def test_workers_take_modules_from_both_ends_until_they_meet() -> None:
    even, odd = Node("gw0"), Node("gw1")
    made = scheduled(even, odd)
    assert (set(even.given), set(odd.given)) == ({"front"}, {"last"})
    for index in (12, 13, 14, 9, 10, 11):
        made.mark_test_complete(odd, index)
    assert list(dict.fromkeys(odd.given)) == ["last", "last but one", "middle"]
    for index in (0, 1, 2):
        made.mark_test_complete(even, index)
    assert list(dict.fromkeys(even.given)) == ["front", "second"]
    assert even.shutting_down


def test_one_worker_takes_everything_from_the_front() -> None:
    made = scheduled(only := Node("gw0"))
    for index in range(len(TESTS)):
        made.mark_test_complete(only, index)
    assert only.given == [test.split("::")[0] for test in TESTS]


def test_what_waits_stands_in_front_what_computes_behind_and_the_rest_between() -> None:
    line = ["tests/fault/x.py", "tests/contract/x.py", "tests/unit/x.py", "tests/console/x.py", *SPARK_OF_ITS_OWN]
    assert sorted(set(line), key=place) == line
    assert place("tests/acceptance/test_doctor.py::x") < place("tests/unit/x.py") < place("tests/reconcile/x.py")


def test_the_places_are_there() -> None:
    assert [name for name in (*WAITING, *BUSY, *SPARK_OF_ITS_OWN) if not (ROOT / name).exists()] == []
