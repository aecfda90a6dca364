"""The short form; `make machine` is the long one."""

from tests.machine.run import never_met, play


def test_the_worker_and_its_model_come_to_the_same() -> None:
    hits, failure = play(150, 50)
    assert failure == ""
    assert sum(hits.values()) > 5000
    assert never_met(hits) == []
