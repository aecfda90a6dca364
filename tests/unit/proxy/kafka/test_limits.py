"""What clients may take of the proxy: bytes from one budget, time, and decompressed records."""

import resource

import pytest

from kafkawire.batch.compression import Allowance, compress
from kafkawire.batch.head import Codec
from kafkawire.protocol.errors import BatchTooLarge
from kafkawire.protocol.messages.cluster import SaslAuthenticateResponse
from proxy.kafka.frontend.answers import is_login
from proxy.kafka.limits import Budget, Deadlines, Limits

LIMITS = Limits(frame_timeout_s=60, idle_timeout_s=600, login_timeout_s=30)


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
        found.append(deadlines.overdue(now_s, 7, logged_in=True, excused=False))
    assert found == [None, None, None, "frame_timeout"]


def test_each_frame_has_its_own_time_and_a_client_that_is_not_read_has_all_of_it() -> None:
    deadlines = Deadlines(LIMITS)
    assert deadlines.overdue(0, 7, logged_in=True, excused=False) is None
    assert deadlines.overdue(60, 8, logged_in=True, excused=False) is None
    assert deadlines.overdue(100, 8, logged_in=True, excused=True) is None
    assert deadlines.overdue(160, 8, logged_in=True, excused=False) is None
    assert deadlines.overdue(161, 8, logged_in=True, excused=False) == "frame_timeout"


@pytest.mark.parametrize(
    ("logged_in", "limit_s", "about"), [(True, 600, "idle_timeout"), (False, 30, "login_timeout")]
)
def test_a_silent_client_is_idle(logged_in: bool, limit_s: int, about: str) -> None:
    deadlines = Deadlines(LIMITS)
    assert deadlines.overdue(0, None, logged_in=logged_in, excused=False) is None
    assert deadlines.overdue(limit_s, None, logged_in=logged_in, excused=False) is None
    assert deadlines.overdue(limit_s + 1, None, logged_in=logged_in, excused=False) == about


def test_batches_of_one_request_share_what_they_may_decompress_to() -> None:
    bomb = compress(Codec.GZIP, bytes(600), b"")
    allowance = Allowance(1000)
    allowance.decompress(Codec.GZIP, bomb, 1000)
    assert allowance.decompress(Codec.NONE, bytes(900), 1000) == bytes(900)
    with pytest.raises(BatchTooLarge):
        allowance.decompress(Codec.GZIP, bomb, 1000)


@pytest.mark.parametrize(
    ("code", "data", "passed"),
    [
        (0, b"", True),
        (0, b"v=abc", True),
        (0, b"r=nonce,s=salt,i=4096", False),
        (0, b'{"status":"x"}', False),
        (58, b"", False),
    ],
)
def test_a_login_has_passed_with_the_last_answer_that_has_no_error(code: int, data: bytes, passed: bool) -> None:
    assert is_login(SaslAuthenticateResponse(error_code=code, auth_bytes=data)) is passed


def test_connections_stay_below_what_the_process_may_open() -> None:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 1 <= Limits(connections_max=10**9).connections <= max(1, (descriptors - 256) // 2)
