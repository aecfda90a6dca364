"""Token buckets: how fast a limited topic's messages leave, and that nobody else waits for them."""

from dataclasses import replace

import pytest

from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.rates import STEP_S
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.errors import CommitAborted
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench
from tests.unit.delay_service.worker.test_worker_trouble import calm, refuse

MAIL = Shard("mail", "0")
TURN_MS = 10


def send(bench: Bench, count: int, shard: Shard = MAIL) -> None:
    for number in range(count):
        bench.send(b"%d" % number, (b"delay-ms", b"1000"), to=shard)


def work(bench: Bench, seconds: float) -> None:
    for _ in range(round(seconds * 1000 / TURN_MS)):
        bench.clock.advance(TURN_MS)
        bench.turn(1)


def due(bench: Bench) -> None:
    """Everything that was sent, and the bucket is full."""
    bench.turn()
    bench.clock.advance(1000)
    bench.turn(1)


def limited(rate_max: int, partitions: int = 1) -> Bench:
    return Bench(topics=("mail", "orders"), partitions=partitions, mail={"rate_max": rate_max})


@pytest.mark.parametrize("rate_max", [1, 7, 100])
def test_a_backlog_leaves_with_a_burst_of_one_second_and_then_at_the_rate(rate_max: int) -> None:
    bench = limited(rate_max)
    send(bench, 6 * rate_max)
    due(bench)
    at_once = len(bench.delivered("mail"))
    work(bench, 4)
    after = len(bench.delivered("mail"))
    work(bench, 2)
    slack = rate_max * STEP_S + 1
    assert at_once == rate_max
    assert 5 * rate_max - slack <= after <= 5 * rate_max
    assert bench.delivered("mail") == [b"%d" % number for number in range(6 * rate_max)]


def test_never_more_than_the_rate_in_any_second_once_the_burst_is_over() -> None:
    bench = limited(50)
    send(bench, 400)
    due(bench)
    counts = []
    for _ in range(300):
        work(bench, TURN_MS / 1000)
        counts.append(len(bench.delivered("mail")))
    in_a_second = [later - earlier for earlier, later in zip(counts, counts[100:], strict=False)]
    assert 48 <= min(in_a_second) <= max(in_a_second) <= 52


def test_a_topic_without_a_rule_does_not_wait_for_one_that_is_limited() -> None:
    bench = limited(10)
    send(bench, 100)
    bench.turn()
    for number in range(40):
        bench.send(b"%d" % number, (b"delay-ms", b"%d" % (1000 + 10 * number)), to=Shard("orders", "0"))
    bench.turn()
    bench.clock.advance(1000 - TURN_MS)
    for number in range(40):
        work(bench, TURN_MS / 1000)
        assert len(bench.delivered("orders")) == number + 1
    assert len(bench.delivered("mail")) < 20


def test_quiet_times_save_up_one_second_and_no_more() -> None:
    bench = limited(20)
    bench.turn()
    work(bench, 30)
    send(bench, 100)
    due(bench)
    assert len(bench.delivered("mail")) == 20


def test_each_shard_of_a_limited_topic_gets_its_part() -> None:
    bench = limited(40, partitions=4)
    for partition in "0123":
        send(bench, 100, Shard("mail", partition))
    due(bench)
    work(bench, 3)
    counts = [len(bench.delivered("mail", partition)) for partition in "0123"]
    assert 150 <= sum(counts) <= 160
    assert max(counts) - min(counts) <= 4


def test_one_busy_shard_may_use_what_the_others_leave() -> None:
    bench = limited(40, partitions=4)
    send(bench, 200)
    due(bench)
    work(bench, 2)
    assert 110 <= len(bench.delivered("mail")) <= 120


def test_a_worker_that_owns_a_part_of_the_partitions_lets_out_that_part_of_the_rate() -> None:
    bench = limited(40, partitions=4)
    bench.turn()
    for partition in "0123":
        bench.worker.core(Shard("mail", partition)).partitions = tuple("01234567")  # type: ignore[union-attr]
    work(bench, 2)
    for partition in "0123":
        send(bench, 100, Shard("mail", partition))
    due(bench)
    work(bench, 2)
    assert 56 <= sum(len(bench.delivered("mail", partition)) for partition in "0123") <= 61


def figure(bench: Bench) -> list[bool]:
    return [status.rate_limited for status in bench.worker.statuses if status.id == MAIL]


def test_waiting_for_the_rate_is_shown_and_is_no_stall() -> None:
    bench = limited(10)
    send(bench, 30)
    due(bench)
    work(bench, 0.5)
    (status,) = [status for status in bench.worker.statuses if status.id == MAIL]
    gauges = {sample.labels["topic"]: sample.value for family in bench.metrics.collect() for sample in family.samples
              if sample.name == "delayline_rate_limited_shards"}  # fmt: skip
    assert (status.rate_limited, status.stalled, status.ready, status.backlog > 0) == (True, None, True, True)
    assert gauges == {"mail": 1, "orders": 0}
    work(bench, 3)
    assert (len(bench.delivered("mail")), figure(bench)) == (30, [False])


def test_only_shards_with_something_due_show_the_limit() -> None:
    bench = limited(10, partitions=4)
    send(bench, 30)
    due(bench)
    work(bench, 0.5)
    by_shard = {status.id: status.rate_limited for status in bench.worker.statuses if status.id.topic == "mail"}
    assert by_shard == {Shard("mail", partition): partition == "0" for partition in "0123"}


def test_a_backlog_within_the_rate_is_not_shown_as_limited() -> None:
    bench = limited(100)
    send(bench, 50)
    due(bench)
    assert figure(bench) == [False]


def test_the_worker_sleeps_until_there_is_a_token() -> None:
    bench = limited(2)
    bench.settings = replace(bench.settings, poll_wait_max_s=9.0)
    send(bench, 10)
    due(bench)
    bench.worker.settings = bench.settings
    assert 0.4 <= bench.worker.wait_s() <= 0.5


def test_what_was_not_delivered_is_tried_again_within_the_rate() -> None:
    bench = limited(10)
    send(bench, 10)
    bench.turn()
    bench.clock.advance(1000)
    bench.sink.fault = lambda _: CommitAborted("try again")
    bench.turn(1)
    bench.sink.fault = lambda _: None
    work(bench, 0.9)
    assert bench.delivered("mail") == []  # it waits out the commit's backoff, and its tokens are gone
    work(bench, 2)
    assert len(bench.delivered("mail")) == 10


def test_what_goes_to_the_dead_letters_is_not_counted() -> None:
    bench = limited(1)
    for _ in range(20):
        bench.send(b"bad", (b"delay-ms", b"soon"), to=MAIL)
    send(bench, 1)
    bench.turn(30)
    assert len(bench.log(NAMES.dead)) == 20


def test_what_is_buried_does_not_wait_for_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(orders={"rate_max": 1})
    bench.settings = replace(bench.settings, stall_max_s=10.0)
    bench.start("w2")
    calm(bench)
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: "no such topic")
    bench.sink.fault = refuse
    send(bench, 20, ORDERS)
    bench.turn(8)
    for _ in range(4):
        bench.clock.advance(60_000)
        bench.turn(2)
    assert len(bench.log(NAMES.dead)) == 20


# --- late_max


def test_a_message_that_is_taken_too_late_expires() -> None:
    bench = Bench(orders={"late_max_ms": 5000})
    bench.send(b"too late", (b"delay-ms", b"1000"))
    bench.send(b"late", (b"delay-ms", b"1001"))
    bench.turn()
    bench.clock.advance(6001)
    bench.turn()
    assert bench.delivered() == [b"late"]
    found = bench.history.find(Shard("orders", "0"), 0, bench.clock.now_ms() - 5001)
    assert found is not None
    assert found.ending is not None
    assert (found.ending.outcome, found.ending.reason) == ("expired", "late-max")


def test_what_has_expired_stays_so_after_a_restart_under_another_rule() -> None:
    bench = Bench(orders={"late_max_ms": 5000})
    bench.send(b"too late", (b"delay-ms", b"1000"))
    bench.turn()
    bench.clock.advance(9000)
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    bench.settings = replace(bench.settings, shard_settings_of=lambda _: ShardSettings(DEFAULT_RULES, NAMES))
    bench.start("w2")
    bench.turn()
    assert (bench.delivered(), bench.worker.statuses[0].pending) == ([], 0)


def test_what_is_too_late_does_not_hold_up_a_limited_topic() -> None:
    bench = Bench(topics=("mail",), mail={"rate_max": 2, "late_max_ms": 60_000})
    send(bench, 500)
    bench.turn()
    bench.clock.advance(100_000)
    send(bench, 2)
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()
    assert bench.delivered("mail") == [b"0", b"1"]
    assert bench.worker.statuses[0].pending == 0
