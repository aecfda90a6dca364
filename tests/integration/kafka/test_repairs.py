"""Repairs on a broker: of several at once, and after one that ended anywhere, each message goes into the log once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier

import pytest

from delayline.buffer.outcome import Outcome, decode_audit
from delayline.buffer.record import Message, read
from delayline.names import Names
from delayline.records.message import Key
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append
from mq.errors import ClaimLost, QueueUnavailable
from mq.kafka.queue import KafkaQueue
from reconcile.logic.plan import Cluster
from reconcile.repair import Repair, Verdict
from reconcile.report.repair_plan import LostMessage, RepairPlan
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place

MESSAGES = 12
ROUNDS = 3


def lost(place: Place, queue: KafkaQueue) -> RepairPlan:
    """Messages that the shard's cursor has passed, and that have no row in the audit."""
    names = Names(place.namespace)
    place.make_topic()
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    worker.assigned(2)
    made = encode_body(None, b"lost", [(b"delay-ms", b"1")])
    places = [queue.append([Append(place.buffer, "0", made)]).result(PATIENCE_S)[0] for _ in range(MESSAGES)]
    worker.cursors[place.shard] = replace(worker.claim(place.shard), next_offset=places[-1].offset + 1)
    worker.commit(place.shard)
    worker.close()
    messages = [
        LostMessage(f"{place.topic}.0.{at.offset}.{due_ms}", place.topic, 0, at.offset, due_ms, None)
        for at in places
        for due_ms in [at.appended_at_ms + 1]
    ]
    read_to = {name: queue.offsets(names.audit, name)[1] for name in queue.topic(names.audit).partitions}
    cluster = Cluster("kafka", queue.identity(), place.namespace)
    return RepairPlan(cluster=cluster, run=1, at_ms=0, audit=read_to, messages=messages, more=0)


def repair_of(place: Place, queue: KafkaQueue) -> Repair:
    return Repair(queue, "kafka", Names(place.namespace), lambda _: DEFAULT_RULES, CLOCK)


def carry_out(repair: Repair, plan: RepairPlan) -> int:
    """How many it has sent. Raises ClaimLost."""
    repair.claim()
    return sum(repair.send(step).verdict is Verdict.SENT for step in repair.look(plan) if step.found)


def check_each_went_once(place: Place, queue: KafkaQueue, plan: RepairPlan) -> None:
    names = Names(place.namespace)
    assert queue.is_stable(place.buffer, "0", PATIENCE_S)
    meanings = [read(one.body, one.appended_at_ms, DEFAULT_RULES) for one in queue.read(place.buffer, "0", 0, 10_000)]
    again = Counter(one.replaces for one in meanings if isinstance(one, Message) and one.replaces is not None)
    assert again == Counter(Key(message.due_ms, message.offset) for message in plan.messages)
    ended: Counter[tuple[int, Outcome]] = Counter()
    for name in queue.topic(names.audit).partitions:
        assert queue.is_stable(names.audit, name, PATIENCE_S)
        for record in queue.read(names.audit, name, 0, 10_000):
            _, rows = decode_audit(decode_body(record.body).value or b"")
            ended.update((row.offset, row.outcome) for row in rows)
    assert ended == Counter((message.offset, Outcome.SUPERSEDED) for message in plan.messages)


def test_of_repairs_at_once_each_message_is_sent_by_one(place: Place) -> None:
    """Threads with queues of their own are to the brokers what processes on several machines are."""
    queues = [place.queue() for _ in range(3)]
    plan, start = lost(place, queues[0]), Barrier(len(queues))

    def insist(queue: KafkaQueue) -> None:
        start.wait(PATIENCE_S)
        for _ in range(ROUNDS):
            # one that loses the claim, or does not know how a commit ended, runs the command again
            with suppress(ClaimLost, QueueUnavailable):
                carry_out(repair_of(place, queue), plan)

    with ThreadPoolExecutor(len(queues)) as pool:
        for done in [pool.submit(insist, queue) for queue in queues]:
            done.result()
    carry_out(repair_of(place, queues[0]), plan)
    check_each_went_once(place, queues[0], plan)
    assert carry_out(repair_of(place, queues[0]), plan) == 0


def test_one_that_has_looked_and_was_overtaken_sends_nothing(place: Place) -> None:
    first, second = place.queue(), place.queue()
    plan = lost(place, first)
    slow = repair_of(place, first)
    slow.claim()
    steps = slow.look(plan)
    slow.send(steps[0])
    assert carry_out(repair_of(place, second), plan) == MESSAGES - 1
    for step in steps[1:3]:
        with pytest.raises((ClaimLost, QueueUnavailable), match="claim"):
            slow.send(step)
    check_each_went_once(place, first, plan)


def test_what_one_that_was_killed_had_begun_to_write_never_was(place: Place) -> None:
    """Its transaction is open; the next one need not wait for its timeout."""
    first, second = place.queue(), place.queue()
    plan = lost(place, first)
    killed = first._client.claim(Names(place.namespace).claim("repair"))
    producer = killed._claim._producer
    assert producer is not None
    producer.begin_transaction()
    producer.produce(place.buffer, b"half", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert carry_out(repair_of(place, second), plan) == MESSAGES
    check_each_went_once(place, second, plan)
