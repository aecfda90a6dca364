"""What goes wrong around a worker: the queue is away, clocks differ, targets refuse, buffers are replaced."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, ParamSpec

import pytest
from prometheus_client import CollectorRegistry

from delay_service.worker.owned import backlog
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import Rules
from mq.clock_offset import ClockOffset
from mq.contract import Append, DispatchBatch, TopicInfo
from mq.errors import CommitAborted, DeliveryRefused, QueueClosed, QueueUnavailable
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench
from tests.unit.delay_service.worker.test_worker import Reluctant


@pytest.fixture
def bench() -> Bench:
    return Bench()


def with_settings(bench: Bench, **settings: Any) -> Bench:
    bench.settings = replace(bench.settings, **settings)
    bench.start("w2")
    calm(bench)
    return bench


def calm(bench: Bench) -> None:
    """Buffer maintenance answers when a turn waits for it, so that every run is the same."""
    bench.worker.buffer_maintenance.close()
    bench.worker.buffer_maintenance.executor = Prompt()


P = ParamSpec("P")


class Prompt(Reluctant):
    """An executor that does at once what it is handed."""

    def submit(self, call: Callable[P, Any], /, *args: P.args, **named: P.kwargs) -> "Future[Any]":
        future = super().submit(call, *args, **named)
        self.work()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is left to do."""


def stalled(bench: Bench) -> str | None:
    return bench.worker.statuses[0].stalled


# --- the queue is away


def test_a_queue_that_is_away_for_a_while_is_polled_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(b"a", (b"delay-ms", b"0"))
    poll = bench.source.poll
    answers: Iterator[Exception] = iter([QueueUnavailable("gone")] * 5)

    def away(records_max: int, timeout_s: float) -> Any:
        if (error := next(answers, None)) is not None:
            raise error
        return poll(records_max, timeout_s)

    monkeypatch.setattr(bench.source, "poll", away)
    bench.turn(5)
    before = bench.delivered()
    bench.turn(8)
    assert (before, bench.delivered()) == ([], [b"a"])


def test_a_queue_that_is_closed_ends_the_worker(bench: Bench) -> None:
    bench.turn()
    bench.queue.close()
    with pytest.raises(QueueClosed):
        bench.turn()


def test_a_takeover_without_an_answer_is_tried_again_soon_however_long_it_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    takeover = bench.queue.takeover
    monkeypatch.setattr(bench.queue, "takeover", lambda _: (_ for _ in ()).throw(QueueUnavailable("no answer")))
    for _ in range(30):
        bench.turn(1)
        bench.clock.advance(1000)
    waiting = (stalled(bench), bench.owned().progress.backoff_s)
    monkeypatch.setattr(bench.queue, "takeover", takeover)
    bench.clock.advance(4000)
    bench.turn()
    assert waiting == ("unavailable", 4.0)
    assert bench.worker.core(ORDERS) is not None


def test_one_takeover_without_an_answer_does_not_make_the_others_wait_as_long_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mails", "news", "texts"):
        bench.queue.ensure_buffer(name, Rules())
    asked: list[object] = []

    def silent(shard: object) -> object:
        asked.append(shard)
        raise QueueUnavailable("no answer")

    monkeypatch.setattr(bench.queue, "takeover", silent)
    bench.turn(2)
    assert len(asked) == 1


def test_commits_that_fail_in_an_outage_are_repeated_every_few_seconds(bench: Bench) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.sink.fault = lambda _: CommitAborted("no answer")
    for _ in range(60):
        bench.turn(1)
        bench.clock.advance(1000)
    bench.sink.fault = lambda _: None
    bench.clock.advance(4000)
    bench.turn()
    assert bench.delivered() == [b"a"]


def test_a_shard_that_alone_cannot_commit_is_tried_ever_more_rarely(bench: Bench) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.sink.fault = lambda batch: CommitAborted("no") if any(p.shard == ORDERS for p in batch) else None
    bench.turn(1)
    bench.queue.ensure_buffer("mails", Rules())
    for number in range(80):
        body = encode_body(None, b"%d" % number, [(b"delay-ms", b"0")])
        bench.queue.append([Append(NAMES.buffer("mails"), "0", body)]).result()
        bench.turn(3)
        bench.clock.advance(700)
    assert bench.owned().progress.backoff_s > 4.0


# --- clocks


def skew(bench: Bench, offset: ClockOffset | None) -> None:
    bench.source.clock_offset = lambda _: offset


@pytest.mark.parametrize("ahead_ms", [-6000, 6000])
def test_beyond_the_allowed_skew_delivery_waits_and_reading_goes_on_until_the_clocks_agree(
    bench: Bench, ahead_ms: int
) -> None:
    bench.turn()
    skew(bench, ClockOffset("7", ahead_ms - 10, ahead_ms + 10))
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.turn()
    core = bench.worker.core(ORDERS)
    assert core is not None
    waiting = (stalled(bench), bench.delivered(), core.position)
    skew(bench, ClockOffset("7", -10, 10))
    bench.turn()
    assert (waiting, stalled(bench), bench.delivered()) == (("clock_skew", [], 1), None, [b"a"])


def test_within_the_allowed_skew_nothing_waits(bench: Bench) -> None:
    skew(bench, ClockOffset("7", -5000, -4000))
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.turn()
    assert bench.delivered() == [b"a"]


def test_a_shard_without_a_clock_to_go_by_does_not_turn_the_loop_hot(bench: Bench) -> None:
    bench.turn()
    skew(bench, ClockOffset("7", 9000, 9000))
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.turn()
    bench.worker.settings = replace(bench.worker.settings, poll_wait_max_s=0.2)
    assert bench.worker.wait_s() == 0.2


# --- targets


def refuse(batch: DispatchBatch) -> Exception | None:
    refused = any(part.shard == ORDERS and part.deliveries for part in batch)
    return DeliveryRefused(ORDERS, "no such topic", of_record=False) if refused else None


def test_a_target_that_refused_is_looked_at_before_it_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm(bench)
    tries: list[int] = []

    def refuse_and_count(batch: DispatchBatch) -> Exception | None:
        found = refuse(batch)
        tries.append(found is not None)
        return found

    bench.sink.fault = refuse_and_count
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: "still gone")
    bench.send(b"a", (b"delay-ms", b"0"))
    for _ in range(100):
        bench.turn(2)
        bench.clock.advance(1000)
    gone = (sum(tries), stalled(bench), bench.worker.statuses[0].detail)
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: None)
    bench.sink.fault = lambda _: None
    bench.clock.advance(60_000)
    bench.turn()
    assert (gone, stalled(bench), bench.delivered()) == ((1, "target", "still gone"), None, [b"a"])


def test_the_other_partitions_of_a_target_that_refused_are_looked_at_before_they_cost_a_commit_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(partitions=3)
    calm(bench)
    refused: list[str] = []

    def refuse_any(batch: DispatchBatch) -> Exception | None:
        guilty = [part.shard for part in batch if part.deliveries]
        refused.extend(shard.partition for shard in guilty[:1])
        return DeliveryRefused(guilty[0], "too few replicas", of_record=False) if guilty else None

    bench.sink.fault = refuse_any
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: "too few replicas")
    body = encode_body(None, b"a", [(b"delay-ms", b"0")])
    for partition in "012":
        bench.queue.append([Append(NAMES.buffer("orders"), partition, body)]).result()
    for _ in range(20):
        bench.turn(2)
        bench.clock.advance(1000)
    assert len(refused) == 1
    assert {status.stalled for status in bench.worker.statuses} == {"target"}


def test_a_stalled_shard_shows_when_it_tries_again(bench: Bench) -> None:
    calm(bench)
    bench.sink.fault = refuse
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.turn(5)
    assert bench.worker.statuses[0].retry_s == 1.0


def test_without_a_limit_a_refusing_target_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calm(bench)
    bench.sink.fault = refuse
    bench.send(b"a", (b"delay-ms", b"0"))
    for _ in range(50):
        bench.turn(2)
        bench.clock.advance(60_000)
    assert list(bench.log(NAMES.dead)) == []


@pytest.mark.parametrize("shows", [True, False])
def test_beyond_stall_max_what_is_due_is_buried_with_the_reason_and_what_is_not_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    """Whether or not the refusal can be seen without a delivery."""
    with_settings(bench, stall_max_s=100.0)
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: "no such topic" if shows else None)
    bench.sink.fault = refuse
    for number in range(3):
        bench.send(b"%d" % number, (b"delay-ms", b"0"))
    bench.send(b"later", (b"delay-ms", b"7200000"))
    bench.turn(8)
    bench.clock.advance(99_000)
    bench.turn(8)
    before = len(bench.log(NAMES.dead))
    for _ in range(4):
        bench.clock.advance(60_000)
        bench.turn(8)
    dead = [decode_body(record.body) for record in bench.log(NAMES.dead)]
    headers = dict(dead[0].headers)
    bench.sink.fault = lambda _: None
    monkeypatch.setattr(type(bench.queue), "target_trouble", lambda *_: None)
    bench.clock.advance(7_200_000)
    bench.turn(8)
    assert (before, [record.value for record in dead], bench.delivered()) == (0, [b"0", b"1", b"2"], [b"later"])
    assert (headers[b"delayline-error-code"], headers[b"delayline-reason"]) == (b"target-refuses", b"no such topic")


# --- the buffer


def test_a_buffer_topic_made_again_stalls_its_shard_and_is_never_trimmed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_settings(bench, trim_interval_s=0.0)
    bench.send(b"a", (b"delay-ms", b"0"))
    handover = bench.queue.takeover
    another = TopicInfo(NAMES.buffer("orders"), ("0",), b"another topic...")
    monkeypatch.setattr(type(bench.queue), "buffer", lambda *_: another)
    bench.turn(2)
    monkeypatch.setattr(bench.queue, "takeover", lambda shard: handover(shard)._replace(topic_id=b"another topic..."))
    bench.clock.advance(1000)
    bench.turn(8)
    assert (stalled(bench), bench.queue.offsets(NAMES.buffer("orders"), "0")[0]) == ("buffer_recreated", 0)


# --- what is reported


def sample(bench: Bench, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(bench.metrics)
    return registry.get_sample_value(name, labels)


def test_the_backlog_counts_what_is_due_and_not_delivered(bench: Bench) -> None:
    bench.turn()
    bench.sink.fault = refuse
    for delay_ms in (0, 10, 50_000, 130_000, 3_600_000):
        bench.send(b"x", (b"delay-ms", b"%d" % delay_ms))
    bench.turn()
    index, start_ms = bench.index.shard(ORDERS), bench.clock.now_ms()
    counted = [backlog(index, start_ms + after_ms) for after_ms in (-1, 0, 10, 50_000, 130_000, 200_000, 3_600_000)]
    assert counted == [0, 1, 2, 3, 4, 4, 5]
    assert sample(bench, "delayline_due_backlog_messages", topic="orders") == 1


@pytest.mark.parametrize("due", [0, 15, 16, 17, 80, 999, 1000, 1200])
def test_the_backlog_counts_up_to_a_bound_in_portions(bench: Bench, due: int) -> None:
    bench.turn()
    bench.sink.fault = refuse
    for number in range(1300):
        bench.send(b"x", (b"delay-ms", b"%d" % (number // 3 if number < due else 500 + number)))
    bench.turn()
    assert backlog(bench.index.shard(ORDERS), bench.clock.now_ms() + 450) == min(due, 1000)


def test_the_age_of_the_first_record_needed_is_reported(bench: Bench) -> None:
    with_settings(bench, trim_interval_s=0.0)
    bench.send(b"long", (b"delay-ms", b"7200000"))
    bench.turn(8)
    bench.clock.advance(600_000)
    bench.turn(8)
    assert sample(bench, "delayline_buffer_oldest_age_seconds", topic="orders") == 600.0


def test_the_clocks_are_shown_by_broker(bench: Bench) -> None:
    skew(bench, ClockOffset("7", 1000, 2000))
    bench.turn()
    assert sample(bench, "delayline_clock_offset_seconds", broker="7") == 1.5


def test_status_asks_the_queue_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"1000"))
    monkeypatch.setattr(bench.queue, "log_range", lambda _: pytest.fail("asked"))
    bench.turn()
    assert bench.worker.statuses[0].pending == 1
