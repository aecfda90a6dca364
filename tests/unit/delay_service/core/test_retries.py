"""What consumer groups send back, through the worker."""

from typing import Any

import pytest

from delayline.buffer.outcome import Outcome, decode_audit
from delayline.names import Names
from delayline.records.message import Header
from delayline.records.record import Record, decode_body, encode_body
from delayline.schedule.rules import Rules
from mq.contract import Append, DispatchBatch
from mq.errors import CommitAborted, CommitUnknown, TopicUnknown
from mq.group_topic_limit import GroupTopicLimit
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES, Bench

GROUP = (b"delay-retry", b"billing")
RETRY, DLQ = NAMES.retry("billing"), NAMES.dlq("billing")


@pytest.fixture
def bench() -> Bench:
    return Bench(partitions=4)


def send_back(bench: Bench, *headers: Header, value: bytes = b"v", partition: str = "2") -> None:
    body = encode_body(b"k", value, [*headers, GROUP])
    bench.queue.append([Append(NAMES.buffer("orders"), partition, body)]).result()
    bench.turn()


def records(bench: Bench, topic: str) -> list[tuple[str, Record]]:
    """With their partitions; none where there is no such topic."""
    try:
        found = [(part, record) for part in "0123" for record in bench.queue.read(topic, part, 0, 1000)]
    except TopicUnknown:
        return []
    return [(part, decode_body(record.body)) for part, record in found]


def values(bench: Bench, topic: str) -> list[bytes | None]:
    return sorted((record.value for _, record in records(bench, topic)), key=repr)


def rows(bench: Bench) -> list[tuple[Outcome, str | None]]:
    written = [record.value for _, record in records(bench, NAMES.audit)]
    return [(row.outcome, row.reason) for value in written for row in decode_audit(value or b"")[1]]


def test_what_was_sent_back_comes_to_the_group_when_it_is_due_and_to_nobody_else(bench: Bench) -> None:
    send_back(bench)
    bench.clock.advance(9_999)
    bench.turn()
    before = values(bench, RETRY)
    bench.clock.advance(1)
    bench.turn()
    assert (before, values(bench, RETRY), values(bench, "orders"), values(bench, DLQ)) == ([], [b"v"], [], [])
    assert rows(bench) == [(Outcome.DELIVERED, "retry")]


def test_it_has_everything_that_it_was_sent_back_with_and_names_its_origin(bench: Bench) -> None:
    accepted_ms = bench.clock.now_ms()
    echoed = [(b"delayline-id", b"orders.0.1.2"), (b"delayline-due", b"2"), (b"delayline-accepted", b"1")]
    send_back(bench, (b"trace", b"t"), *echoed, (b"null", None))
    bench.clock.advance(10_000)
    bench.turn()
    ((partition, record),) = records(bench, RETRY)
    due = b"%d" % (accepted_ms + 10_000)
    assert (partition, record.key, record.value) == ("2", b"k", b"v")
    assert record.headers == [
        (b"trace", b"t"),
        (b"null", None),
        (b"delayline-accepted", b"%d" % accepted_ms),
        (b"delayline-id", b"orders.2.0." + due),
        (b"delayline-due", due),
        (b"delayline-topic", b"orders"),
        (b"delayline-attempt", b"1"),
    ]


def test_a_group_that_fails_every_time_is_given_it_so_often_and_then_it_is_dead() -> None:
    bench = Bench(partitions=4, rules=Rules(levels_ms=(1, 1, 1000, 2000), retry_attempts_max=3))
    bench.turn()  # the rules are in the log
    send_back(bench)
    waited = []
    for round_ in range(3):
        found: list[Any] = []
        while len(found) <= round_:
            bench.clock.advance(500)
            bench.turn(8)
            found = records(bench, RETRY)
        seen = dict(found[-1][1].headers)
        waited.append(int(seen[b"delayline-due"] or b"") - int(seen[b"delayline-accepted"] or b""))
        send_back(bench, *found[-1][1].headers)
    bench.turn(8)
    ((partition, dead),) = records(bench, DLQ)
    headers = dict(dead.headers)
    attempt, reason = headers[b"delayline-attempt"], headers[b"delayline-reason"]
    assert waited == [1000, 2000, 2000]
    assert [len(records(bench, topic)) for topic in (RETRY, DLQ, "orders", NAMES.dead)] == [3, 1, 0, 0]
    assert (partition, dead.value, headers[b"delayline-topic"]) == ("2", b"v", b"orders")
    assert (attempt, reason) == (b"3", b"given to the group 3 times again")
    assert len(headers) == len(dead.headers)
    outcomes = [row for row in rows(bench) if row[0] is not Outcome.APPLIED]
    assert outcomes == [(Outcome.DELIVERED, "retry")] * 3 + [(Outcome.DEAD, "retry-exhausted")]


@pytest.mark.parametrize("headers", [[(b"delayline-attempt", b"x")], [(b"delay", b"1s")]])
def test_what_should_not_have_been_let_in_is_a_dead_letter(bench: Bench, headers: list[Header]) -> None:
    send_back(bench, *headers)
    bench.turn()
    assert [values(bench, topic) for topic in (NAMES.dead, RETRY, DLQ, "orders")] == [[b"v"], [], [], []]
    assert rows(bench) == [(Outcome.DEAD, "invalid-schedule")]


def test_what_a_groups_topic_refuses_is_a_dead_letter_and_others_go_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise TopicUnknown("mq.topics_create is off")

    monkeypatch.setattr(bench.sink.sink, "group_topic", refuse)
    for n in range(5):
        send_back(bench, value=b"%d" % n)
        bench.queue.append(
            [Append(NAMES.buffer("orders"), "2", encode_body(None, b"d%d" % n, [(b"delay", b"10s")]))]
        ).result()
    bench.turn()
    bench.clock.advance(10_000)
    bench.turn(40)
    assert values(bench, "orders") == [b"d%d" % n for n in range(5)]
    assert values(bench, NAMES.dead) == [b"%d" % n for n in range(5)]
    reasons = {dict(record.headers)[b"delayline-reason"] for _, record in records(bench, NAMES.dead)}
    assert reasons == {b"mq.topics_create is off"}
    groups = {dict(record.headers)[b"delay-retry"] for _, record in records(bench, NAMES.dead)}
    assert groups == {b"billing"}
    assert rows(bench).count((Outcome.DEAD, "refused-by-target")) == 5
    assert len(rows(bench)) == 10


def test_each_message_that_a_bound_on_groups_topics_refuses_is_counted_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = GroupTopicLimit(0, bench.clock)
    monkeypatch.setattr(bench.sink.sink, "group_topic", lambda name, target: limit.check(name, target.name))
    counted: list[str] = []
    monkeypatch.setattr(bench.metrics, "group_topic_refused", counted.append)
    for n in range(5):
        send_back(bench, value=b"%d" % n)
    failures = iter([CommitAborted("no memory")] * 3)
    bench.sink.fault = lambda batch: next(failures, None) if any(part.dead for part in batch) else None
    bench.clock.advance(10_000)
    for _ in range(20):
        bench.turn(40)
        bench.clock.advance(10_000)
    assert (next(failures, None), len(values(bench, NAMES.dead))) == (None, 5)
    assert counted == ["orders"] * 5


def test_a_commit_of_unknown_fate_gives_it_to_the_group_once(bench: Bench) -> None:
    send_back(bench)
    errors = iter([CommitUnknown("it was written")])

    def after(batch: DispatchBatch) -> Exception | None:
        return next(errors, None) if any(part.cross_partition for part in batch) else None

    bench.sink.after = after
    bench.clock.advance(10_000)
    bench.turn()
    bench.clock.advance(10_000)
    bench.turn(8)
    assert (next(errors, None), values(bench, RETRY)) == (None, [b"v"])


def test_it_is_a_message_of_its_topic_while_it_waits(bench: Bench) -> None:
    due_ms = bench.clock.now_ms() + 10_000
    send_back(bench, (b"delayline-attempt", b"0"))
    moved = [(b"delay-op", b"reschedule"), (b"delay-ref", b"orders.2.0.%d" % due_ms), (b"delay", b"1h")]
    bench.queue.append([Append(NAMES.buffer("orders"), "2", encode_body(None, None, moved))]).result()
    bench.turn()
    bench.index = MemoryIndex()
    bench.start("w2")  # and is read again from its re-append
    bench.turn()
    bench.clock.advance(3_599_000)
    bench.turn()
    before = values(bench, RETRY)
    bench.clock.advance(2_000)
    bench.turn()
    ((_, record),) = records(bench, RETRY)
    headers = dict(record.headers)
    assert (before, headers[b"delayline-attempt"]) == ([], b"1")
    assert headers[b"delayline-id"] == b"orders.2.0.%d" % due_ms


def test_the_topics_of_groups_have_names_of_their_own() -> None:
    names = Names("ns")
    assert (names.retry("a.b"), names.dlq("a.b")) == ("ns.retry.a.b", "ns.dlq.a.b")
    ours = ("ns.retry.a", "ns.dlq.a", "ns.dead")
    assert [names.is_group(name) for name in (*ours, "ns2.retry.a")] == [True, True, False, False]
    assert [names.is_hidden(name) for name in (*ours, "orders")] == [False, False, True, False]
