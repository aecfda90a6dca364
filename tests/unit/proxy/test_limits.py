"""What clients may take of a proxy: bytes from one budget, and time."""

import resource

import pytest

from proxy.limits import Budget, Deadlines, Limits

LIMITS = Limits(frame_timeout_s=60, idle_timeout_s=600)


def test_a_frame_that_does_not_fit_waits_its_turn_and_a_smaller_one_behind_it_does_not_overtake() -> None:
    budget, ready = Budget(100), []
    first = budget.take(80, lambda: ready.append("first"))
    second = budget.take(90, lambda: ready.append("second"))
    third = budget.take(10, lambda: ready.append("third"))
    assert (first.granted, second.granted, third.granted, ready) == (True, False, False, [])
    first.release()
    first.release()
    assert (ready, budget.used) == (["second", "third"], 100)
    second.release()
    third.release()
    assert budget.used == 0


def test_a_client_that_leaves_the_queue_lets_the_next_one_in() -> None:
    budget, ready = Budget(100), []
    budget.take(80, lambda: None)
    gone = budget.take(90, lambda: ready.append("gone"))
    budget.take(20, lambda: ready.append("next"))
    gone.release()
    assert (ready, budget.used) == (["next"], 100)


def test_what_is_larger_than_the_budget_is_granted_alone() -> None:
    budget = Budget(100)
    assert budget.take(500, lambda: None).granted
    assert not budget.take(1, lambda: None).granted


def test_decompressed_records_count_beyond_the_budget_and_make_others_wait() -> None:
    budget = Budget(100)
    grant = budget.take(10, lambda: None)
    budget.grow(grant, 200)
    assert not budget.take(1, lambda: None).granted
    grant.release()
    assert budget.used == 1


def test_a_frame_that_has_begun_must_end_in_its_time_however_slowly_it_trickles() -> None:
    deadlines = Deadlines(LIMITS)
    found = []
    for now_s in (0, 30, 60, 61):
        deadlines.heard = True
        found.append(deadlines.overdue(now_s, 7, excused=False))
    assert found == [None, None, None, "frame_timeout"]


def test_each_frame_has_its_own_time_and_a_client_that_is_not_read_has_all_of_it() -> None:
    deadlines = Deadlines(LIMITS)
    assert deadlines.overdue(0, 7, excused=False) is None
    assert deadlines.overdue(60, 8, excused=False) is None
    assert deadlines.overdue(100, 8, excused=True) is None
    assert deadlines.overdue(160, 8, excused=False) is None
    assert deadlines.overdue(161, 8, excused=False) == "frame_timeout"


@pytest.mark.parametrize(
    ("login_timeout_s", "limit_s", "about"), [(None, 600, "idle_timeout"), (30, 30, "login_timeout")]
)
def test_a_silent_client_is_idle(login_timeout_s: int | None, limit_s: int, about: str) -> None:
    deadlines = Deadlines(LIMITS)
    assert deadlines.overdue(0, None, excused=False, login_timeout_s=login_timeout_s) is None
    assert deadlines.overdue(limit_s, None, excused=False, login_timeout_s=login_timeout_s) is None
    assert deadlines.overdue(limit_s + 1, None, excused=False, login_timeout_s=login_timeout_s) == about


def test_connections_stay_below_what_the_process_may_open() -> None:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 1 <= Limits(connections_max=10**9).connections <= max(1, (descriptors - 256) // 2)
