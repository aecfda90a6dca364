"""Sending lost messages again, by a plan, to a worker over queue and index in memory."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from delayline.buffer.outcome import (
    REPAIR,
    AuditRow,
    Outcome,
    decode_audit,
    encode_audit,
    encode_low_water,
    spread,
)
from delayline.buffer.record import encode_rules
from delayline.records.message import Header, Key, Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, Audited
from mq.errors import ClaimLost, QueueUnavailable
from reconcile.errors import CannotJudge, OtherCluster
from reconcile.logic.plan import Cluster
from reconcile.repair import UNREPAIRABLE, Repair, RepairStep, Verdict, audit_partition
from reconcile.report.repair_plan import LostMessage, LostSuccessor, RepairPlan
from tests.unit.delay_service.core.test_claims import HOUR, MINUTE, SECOND, delay, ids, own, restart
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

LEVELS = Rules(number=3, levels_ms=(7000, 9000))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def repair_of(bench: Bench) -> Repair:
    return Repair(bench.queue, "embedded", NAMES, lambda _: DEFAULT_RULES, bench.clock)


def lose(bench: Bench, *headers: Header, times: int = 1) -> list[LostMessage]:
    """Messages that the cursor has passed, and that nobody has had: taken out of the index by hand."""
    lost = []
    for _ in range(times):
        offset = bench.send(b"lost", *(headers or (delay(SECOND),)))
        bench.turn()
        (entry,) = (entry for entry in bench.index.shard(ORDERS).scan(Key(-1, -1), 10) if entry.offset == offset)
        assert bench.index.shard(ORDERS).discard(entry.key)
        accepted_ms = bench.clock.now_ms()
        lost.append(LostMessage(f"orders.0.{offset}.{entry.due_ms}", "orders", 0, offset, entry.due_ms, accepted_ms))
    bench.clock.advance(MINUTE)
    bench.turn(6)
    return lost


def plan_of(bench: Bench, *messages: LostMessage, **changes: object) -> RepairPlan:
    read = {name: bench.queue.offsets(NAMES.audit, name)[1] for name in bench.queue.topic(NAMES.audit).partitions}
    cluster = Cluster("embedded", bench.queue.identity(), "delayline")
    plan = RepairPlan(cluster=cluster, run=1, at_ms=0, audit=read, messages=list(messages), more=0)
    return msgspec.structs.replace(plan, **changes)


def verdicts(steps: list[RepairStep]) -> list[Verdict]:
    return [step.verdict for step in steps]


def carry_out(bench: Bench, plan: RepairPlan) -> list[RepairStep]:
    repair = repair_of(bench)
    repair.claim()
    return [repair.send(step) if step.found else step for step in repair.look(plan)]


def rows(bench: Bench) -> list[AuditRow]:
    audits = [decode_body(record.body).value or b"" for record in bench.log(NAMES.audit)]
    return [row for value in audits for row in decode_audit(value)[1]]


def test_looking_changes_nothing(bench: Bench) -> None:
    plan = plan_of(bench, *lose(bench))
    before = bench.queue.log_range(ORDERS), len(bench.log(NAMES.audit))
    assert verdicts(repair_of(bench).look(plan)) == [Verdict.AGAIN]
    assert (bench.queue.log_range(ORDERS), len(bench.log(NAMES.audit))) == before


def test_a_lost_message_comes_under_its_own_id_and_its_record_has_an_outcome(bench: Bench) -> None:
    lost = lose(bench, times=2)
    assert verdicts(carry_out(bench, plan_of(bench, *lost))) == [Verdict.SENT] * 2
    bench.turn(6)
    assert ids(bench) == [message.id.encode() for message in lost]
    ended = {row.offset: row for row in rows(bench)}
    row = ended[lost[0].offset]
    assert row == AuditRow(
        lost[0].offset, lost[0].id, lost[0].due_ms, lost[0].accepted_ms or 0, Outcome.SUPERSEDED, lost[0].id, REPAIR
    )
    assert len(ended) == len(rows(bench))


def test_the_same_plan_twice_sends_once(bench: Bench) -> None:
    plan = plan_of(bench, *lose(bench))
    carry_out(bench, plan)
    again = carry_out(bench, plan)
    bench.turn(6)
    assert [(step.verdict, step.why) for step in again] == [(Verdict.ENDED, "superseded (repair)")]
    assert len(bench.delivered()) == 1


def test_what_was_sent_comes_once_also_when_the_worker_dies_and_its_index_is_lost(bench: Bench) -> None:
    carry_out(bench, plan_of(bench, *lose(bench)))
    restart(bench, lose_index=True)
    restart(bench, lose_index=True)
    assert len(bench.delivered()) == 1


def test_what_has_been_delivered_since_the_plan_is_left_alone(bench: Bench) -> None:
    offset = bench.send(b"late", delay(SECOND))
    due_ms = bench.clock.now_ms() + SECOND
    plan = plan_of(bench, LostMessage(f"orders.0.{offset}.{due_ms}", "orders", 0, offset, due_ms, None))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    assert [(step.verdict, step.why) for step in carry_out(bench, plan)] == [(Verdict.ENDED, "delivered")]


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.EXPIRED])
def test_what_was_cancelled_or_has_expired_is_never_sent_again(bench: Bench, outcome: Outcome) -> None:
    (lost,) = lose(bench)
    plan = plan_of(bench, lost)
    row = AuditRow(lost.offset, lost.id, lost.due_ms, 0, outcome)
    bench.queue.append([Append(NAMES.audit, "0", body) for body in encode_audit(ORDERS, 1, 0, [row])]).result()
    bench.queue.append([Append(NAMES.audit, "0", encode_low_water(ORDERS, 1, 0, 1, 0, 0))]).result()
    assert verdicts(carry_out(bench, plan)) == [Verdict.ENDED]


def test_what_its_shard_has_not_read_is_not_lost(bench: Bench) -> None:
    bench.turn()
    offset = bench.send(b"new", delay(SECOND))
    due_ms = bench.clock.now_ms() + SECOND
    plan = plan_of(bench, LostMessage(f"orders.0.{offset}.{due_ms}", "orders", 0, offset, due_ms, None))
    assert verdicts(carry_out(bench, plan)) == [Verdict.WAITS]


def test_a_plan_that_is_wrong_about_a_pending_message_delivers_it_once(bench: Bench) -> None:
    offset = bench.send(b"waits", delay(HOUR), own(b"k"))
    due_ms = bench.clock.now_ms() + HOUR
    bench.clock.advance(SECOND)
    bench.turn(6)
    plan = plan_of(bench, LostMessage(f"orders.0.{offset}.{due_ms}", "orders", 0, offset, due_ms, None))
    assert verdicts(carry_out(bench, plan)) == [Verdict.SENT]
    bench.turn(6)
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    assert bench.delivered() == [b"waits"]
    assert sorted(row.outcome for row in rows(bench)) == [Outcome.DELIVERED, Outcome.SUPERSEDED]


def test_a_payload_that_was_trimmed_is_reported_as_lost(bench: Bench) -> None:
    (lost,) = lose(bench)
    bench.queue.trim(ORDERS, lost.offset + 1)
    (step,) = carry_out(bench, plan_of(bench, lost))
    assert (step.verdict, step.why) == (Verdict.LOST, "the buffer begins at offset 1")
    assert step.verdict in UNREPAIRABLE


CHANGES: list[Callable[[LostMessage], LostMessage]] = [
    lambda lost: msgspec.structs.replace(lost, id="orders.0.0.17"),
    lambda lost: msgspec.structs.replace(lost, due_ms=lost.due_ms + 1),
    lambda lost: msgspec.structs.replace(lost, offset=lost.offset + 1),
    lambda lost: msgspec.structs.replace(lost, offset=900),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_is_not_the_one_meant_is_not_sent(
    bench: Bench, change: Callable[[LostMessage], LostMessage]
) -> None:
    (lost,) = lose(bench)
    bench.send_raw(encode_rules(DEFAULT_RULES.numbered(1)))
    bench.clock.advance(SECOND)
    bench.turn(6)
    (step,) = carry_out(bench, plan_of(bench, change(lost)))
    assert step.verdict in (Verdict.OTHER, Verdict.WAITS)
    bench.turn()
    assert bench.delivered() == []


def test_what_nobody_could_deliver_is_not_sent_again(bench: Bench) -> None:
    offset, now_ms = bench.send(b"dead", (b"delay-ms", b"never")), bench.clock.now_ms()
    bench.turn()
    lost = LostMessage(f"orders.0.{offset}.{now_ms}", "orders", 0, offset, now_ms, now_ms)
    (step,) = carry_out(bench, plan_of(bench, lost))
    assert (step.verdict, step.why.partition(":")[0]) == (Verdict.OTHER, "it cannot be delivered")


def test_a_topic_that_is_gone_has_taken_its_payloads_along(bench: Bench) -> None:
    (step,) = carry_out(bench, plan_of(bench, LostMessage("mail.0.1.5", "mail", 0, 1, 5, None)))
    assert step.verdict is Verdict.LOST


def test_a_level_is_read_by_the_rules_of_its_time() -> None:
    bench = Bench(rules=LEVELS)
    bench.queue.audit_positions[ORDERS] = Audited(0, bench.clock.now_ms())  # keeps the buffer
    bench.clock.advance(SECOND)
    bench.turn(6)
    (lost,) = lose(bench, (b"delay-level", b"2"))
    bench.settings = replace(bench.settings, shard_settings_of=Bench().settings.shard_settings_of)
    restart(bench, lose_index=False)
    for _ in range(3):
        bench.clock.advance(MINUTE)
        bench.turn(6)
    cursor = bench.queue.read_cursor_unfenced(ORDERS)
    assert cursor is not None
    assert cursor.rules.same_as(DEFAULT_RULES)
    assert verdicts(carry_out(bench, plan_of(bench, lost))) == [Verdict.SENT]
    bench.turn(6)
    assert ids(bench) == [lost.id.encode()]


def test_a_repeating_message_goes_on_from_the_occurrence_that_was_lost(bench: Bench) -> None:
    (lost,) = lose(bench, (b"delay-every", b"1h"), (b"delay-times", b"2"))
    first = msgspec.structs.replace(lost, id=f"{lost.id}~1")
    assert verdicts(carry_out(bench, plan_of(bench, first))) == [Verdict.SENT]
    for _ in range(3):
        bench.clock.advance(HOUR)
        bench.turn(6)
    assert ids(bench) == [f"{lost.id}~1".encode(), f"{lost.id}~2".encode()]


def test_a_plan_for_another_installation_is_refused(bench: Bench) -> None:
    other = Cluster("embedded", bench.queue.identity(), "elsewhere")
    with pytest.raises(OtherCluster, match="elsewhere"):
        repair_of(bench).look(plan_of(bench, cluster=other))


def test_a_plan_from_before_what_is_left_of_the_audit_is_refused(bench: Bench) -> None:
    (lost,) = lose(bench)
    end = bench.queue.offsets(NAMES.audit, "0")[1]
    with pytest.raises(CannotJudge, match="new plan"):
        repair_of(bench).look(plan_of(bench, lost, audit={"0": end + 1}))


def test_a_partition_of_the_audit_that_is_away_may_hold_an_outcome(bench: Bench) -> None:
    (lost,) = lose(bench)
    with pytest.raises(CannotJudge, match=r"audit, partition broker-a:3, is not there now"):
        repair_of(bench).look(plan_of(bench, lost, audit={"0": 0, "broker-a:3": 7}))


def test_a_row_goes_where_the_rows_of_its_shard_are() -> None:
    names = ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]
    shards = [Shard("orders", name) for name in ("broker-b:0", "broker-b:1", "broker-a:7")]
    assert {audit_partition(shard, names).rpartition(":")[0] for shard in shards} == {"broker-a", "broker-b"}
    assert all(audit_partition(shard, names).startswith(shard.partition[:9]) for shard in shards)
    assert audit_partition(ORDERS, [str(number) for number in range(5)]) == str(spread(ORDERS, 5))


def test_no_verdict_is_given_while_an_outcome_may_be_hidden(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(bench, *lose(bench))
    monkeypatch.setattr(bench.queue, "is_stable", lambda topic, partition, timeout_s: topic != NAMES.audit)
    with pytest.raises(CannotJudge, match="transaction has been open"):
        repair_of(bench).look(plan)


def test_an_audit_partition_that_the_plan_does_not_know_is_read_from_its_beginning(bench: Bench) -> None:
    plan = plan_of(bench, *lose(bench))
    carry_out(bench, plan)
    assert verdicts(repair_of(bench).look(msgspec.structs.replace(plan, audit={}))) == [Verdict.ENDED]


def test_what_could_not_be_written_is_sent_by_the_next_try(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(bench, *lose(bench))

    def refuse(*_: object) -> None:
        raise QueueUnavailable("gone")

    monkeypatch.setattr(bench.queue, "append_under", refuse)
    with pytest.raises(QueueUnavailable):
        carry_out(bench, plan)
    monkeypatch.undo()
    assert verdicts(carry_out(bench, plan)) == [Verdict.SENT]


def test_of_two_repairs_that_have_both_looked_one_sends(bench: Bench) -> None:
    plan, first, second = plan_of(bench, *lose(bench, times=2)), repair_of(bench), repair_of(bench)
    first.claim()
    steps = first.look(plan)
    first.send(steps[0])
    second.claim()
    seen = second.look(plan)
    assert verdicts(seen) == [Verdict.ENDED, Verdict.AGAIN]
    with pytest.raises(ClaimLost):
        first.send(steps[1])
    second.send(seen[1])
    bench.turn(6)
    assert len(bench.delivered()) == 2


def test_what_was_seen_before_the_claim_is_not_sent(bench: Bench) -> None:
    """Another one may have sent it in between."""
    repair = repair_of(bench)
    (step,) = repair.look(plan_of(bench, *lose(bench)))
    repair.claim()
    with pytest.raises(AssertionError, match="before the claim"):
        repair.send(step)


@pytest.mark.parametrize("value", [b"?", b'{"v":9,"kind":"outcomes"}', b'{"v":1,"kind":"outcomes","topic":"orders"}'])
def test_an_audit_record_that_cannot_be_read_may_be_an_outcome(bench: Bench, value: bytes) -> None:
    plan = plan_of(bench, *lose(bench))
    bench.queue.append([Append(NAMES.audit, "0", encode_body(None, value))]).result()
    with pytest.raises(
        CannotJudge, match=r"partition 0, offset \d+: .*; it may hold .*: let the job write a new plan"
    ):
        repair_of(bench).look(plan)


# --- a message that was to go on in another record


def lose_successor(bench: Bench, moves_to_ms: int | None = None) -> LostSuccessor:
    """By its row it was moved by two hours, and nothing carries it on."""
    (lost,) = lose(bench, delay(HOUR))
    row = AuditRow(lost.offset, lost.id, lost.due_ms, 0, Outcome.SUPERSEDED, lost.id, "rescheduled")
    bench.queue.append([Append(NAMES.audit, "0", body) for body in encode_audit(ORDERS, 1, 0, [row])]).result()
    return LostSuccessor(lost.id, "orders", 0, lost.offset, lost.due_ms, moves_to_ms or lost.due_ms + 2 * HOUR)


def plan_of_successors(bench: Bench, *successors: LostSuccessor) -> RepairPlan:
    return plan_of(bench, successors=list(successors))


def test_a_lost_successor_comes_at_the_time_that_it_was_moved_to(bench: Bench) -> None:
    lost = lose_successor(bench)
    assert verdicts(carry_out(bench, plan_of_successors(bench, lost))) == [Verdict.SENT]
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    early = bench.delivered()
    bench.clock.advance(2 * HOUR)
    bench.turn(6)
    assert (early, ids(bench)) == ([], [lost.id.encode()])
    outcomes = sorted((row.offset == lost.offset, row.outcome, row.due_ms) for row in rows(bench))
    assert outcomes == [
        (False, Outcome.DELIVERED, lost.moves_to_ms),
        (True, Outcome.SUPERSEDED, lost.due_ms),
    ]


def test_a_lost_successor_is_sent_once_by_one_plan_and_by_two_repairs(bench: Bench) -> None:
    plan, first, second = plan_of_successors(bench, lose_successor(bench)), repair_of(bench), repair_of(bench)
    first.claim()
    (step,) = first.look(plan)
    second.claim()
    (seen,) = second.look(plan)
    with pytest.raises(ClaimLost):
        first.send(step)
    second.send(seen)
    (again,) = carry_out(bench, plan)
    assert (again.verdict, again.why) == (
        Verdict.ENDED,
        f"it goes on at offset {bench.queue.log_range(ORDERS)[1] - 1}",
    )
    bench.clock.advance(4 * HOUR)
    bench.turn(6)
    assert len(bench.delivered()) == 1


def test_a_successor_that_is_there_after_all_is_left_alone(bench: Bench) -> None:
    offset = bench.send(b"moved", delay(HOUR))
    due_ms = bench.clock.now_ms() + HOUR
    bench.turn(2)
    name = f"orders.0.{offset}.{due_ms}"
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", name.encode()), delay(2 * HOUR))
    bench.turn(4)
    lost = LostSuccessor(name, "orders", 0, offset, due_ms, due_ms + HOUR)
    (step,) = carry_out(bench, plan_of_successors(bench, lost))
    assert (step.verdict, step.why.rpartition(" ")[0]) == (Verdict.ENDED, "it goes on at offset")


def test_a_successor_of_which_nobody_knows_the_time_is_not_sent(bench: Bench) -> None:
    lost = msgspec.structs.replace(lose_successor(bench), moves_to_ms=None)
    (step,) = carry_out(bench, plan_of_successors(bench, lost))
    assert (step.verdict, step.found, step.verdict in UNREPAIRABLE) == (Verdict.UNKNOWN, None, True)


def test_a_successor_whose_last_record_was_trimmed_is_reported_as_lost(bench: Bench) -> None:
    lost = lose_successor(bench)
    bench.queue.trim(ORDERS, lost.offset + 1)
    (step,) = carry_out(bench, plan_of_successors(bench, lost))
    assert (step.verdict, step.why) == (Verdict.LOST, "the buffer begins at offset 1")


def test_no_verdict_is_given_on_successors_while_a_re_append_may_be_hidden(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of_successors(bench, lose_successor(bench))
    monkeypatch.setattr(bench.queue, "is_stable", lambda topic, partition, timeout_s: topic == NAMES.audit)
    with pytest.raises(CannotJudge, match="may be re-appends"):
        repair_of(bench).look(plan)
