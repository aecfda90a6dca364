"""Recalls: OK where a message will never be delivered, and RocketMQ's codes for all else."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Found, Gone, OwnerUnavailable, Resolution, State
from delayline.records.message import MessageId, Shard
from delayline.records.record import decode_body, encode_body
from mq.contract import LogRecord
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import IS_ONE_WAY, Command
from rocketmq.wire.headers.send import RecallMessage
from rocketmq.wire.ids import RecallHandle
from tests.unit.proxy.rocketmq.scene import BROKER, Scene, done

SHARD = Shard("orders", f"{BROKER}:1")
ACCEPTED_MS, OFFSET = 1_767_225_600_000, 5
ID = MessageId(SHARD, OFFSET, ACCEPTED_MS + 1000)
BUFFER = ("ns.buffer.orders", SHARD.partition, OFFSET)
APPLIED = Resolution(Outcome.APPLIED)
UNMATCHED = Resolution(Outcome.UNMATCHED)


def record(key: bytes = b"K1", delay: bytes = b"1000") -> LogRecord:
    return LogRecord(OFFSET, ACCEPTED_MS, encode_body(None, b"x", [(b"UNIQ_KEY", key), (b"delay-ms", delay)]))


def found(state: State) -> Found:
    return Found(ID, state, ACCEPTED_MS, ID.due_ms)


@dataclass
class Owners:
    """Answers in turn; an exception is raised by the future."""

    finds: list[Any]
    decides: list[Any] = field(default_factory=list)
    asked: list[MessageId] = field(default_factory=list)

    def find(self, message_id: MessageId) -> "Future[Any]":
        self.asked.append(message_id)
        return _answered(self.finds)

    def decided(self, shard: Shard, offset: int) -> "Future[Any]":
        assert (shard, offset) == (SHARD, 100)
        return _answered(self.decides)


def _answered(answers: list[Any]) -> "Future[Any]":
    answer = answers.pop(0)
    if answer is None:
        return Future()
    future = done(answer)
    if isinstance(answer, Exception):
        future = Future()
        future.set_exception(answer)
    return future


def recall(
    topic: str = "orders", *, broker: str = BROKER, key: str = "K1", more: Sequence[str] = ("1", "5")
) -> Command:
    handle = RecallHandle("orders", broker, ID.due_ms + 1, key, tuple(more)).encode()
    return Command(Request.RECALL_MESSAGE, RecallMessage(topic, handle, "p", BROKER).to_fields(), opaque=4)


def answered(scene: Scene, owners: Owners, asked: Command | None = None) -> Command:
    scene.owners = owners
    scene.queue.records.setdefault(BUFFER, record())
    return scene.open().client().ask(asked or recall())


def test_a_message_that_waits_is_cancelled_by_its_id(scene: Scene) -> None:
    owners = Owners([found(State.PENDING)], [APPLIED])
    answer = answered(scene, owners)
    assert (answer.code, answer.opaque) == (0, 4)
    assert dict(answer.fields) == {"msgId": "K1", "MSG_REGION": "DefaultRegion"}
    assert owners.asked == [ID]
    (append,) = scene.queue.appended
    assert append[:2] == BUFFER[:2]
    assert decode_body(append.body).headers == [(b"delay-op", b"cancel"), (b"delay-ref", str(ID).encode())]
    assert scene.broker.peer.seen == []
    assert scene.count("delayline_rocketmq_proxy_recalls_total", {"code": "0"}) == 1


def test_a_message_that_cannot_be_read_yet_is_waited_for(scene: Scene) -> None:
    scene.queue.unread = 2
    assert answered(scene, Owners([found(State.PENDING)], [APPLIED])).code == 0


@pytest.mark.parametrize(
    ("finds", "decides", "code"),
    [
        ([found(State.CANCELLED)], [], 0),
        ([found(State.PENDING), found(State.CANCELLED)], [UNMATCHED], 0),
        ([found(State.PENDING), found(State.DELIVERED)], [UNMATCHED], 604),
        ([found(State.PENDING), Gone()], [UNMATCHED], 604),
        ([found(State.DELIVERED)], [], 604),
        ([found(State.DEAD)], [], 604),
        ([Gone()], [], 604),
        ([OwnerUnavailable("none")], [], 14),
        ([found(State.ACCEPTED)], [OwnerUnavailable("none")], 14),
        ([found(State.PENDING)], [None], 14),
    ],
)
def test_ok_means_that_it_will_not_be_delivered(
    scene: Scene, finds: list[Any], decides: list[Any], code: int
) -> None:
    if code == 14:  # the others do not wait for it
        scene.settings = replace(scene.settings, recall_s=0.2)
    assert answered(scene, Owners(finds, decides)).code == code


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (recall("others"), "topic not match"),
        (recall(broker="broker-b"), "broker service not available"),
        (recall(key="K2"), "no such message"),
        (recall(more=("1", "6")), "no such message"),
        (recall(more=("0", "5")), "no such message"),
        (recall(more=("1", "five")), "invalid"),
        (recall(more=("1", "9" * 30)), "invalid"),
    ],
)
def test_a_handle_of_no_message_is_refused(scene: Scene, asked: Command, reason: str) -> None:
    answer = answered(scene, Owners([]), asked)
    assert answer.code == Answer.ILLEGAL_OPERATION
    assert reason in answer.remark


@pytest.mark.parametrize("body", [b"", encode_body(None, b"", [(b"delay-op", b"cancel"), (b"delay-ref", b"x")])])
def test_a_handle_of_a_record_that_is_no_message_is_refused(scene: Scene, body: bytes) -> None:
    scene.queue.records[BUFFER] = LogRecord(OFFSET, ACCEPTED_MS, body)
    assert answered(scene, Owners([])).code == Answer.ILLEGAL_OPERATION


@pytest.mark.parametrize("asked", [recall(more=()), Command(Request.RECALL_MESSAGE, {"topic": "orders"}, opaque=4)])
def test_a_handle_of_rocketmqs_own_is_for_the_broker(scene: Scene, asked: Command) -> None:
    assert answered(scene, Owners([]), asked).opaque == 4
    assert [one.code for one in scene.broker.peer.seen] == [Request.RECALL_MESSAGE]


def test_a_one_way_recall_is_carried_out_without_an_answer(scene: Scene) -> None:
    scene.owners = Owners([found(State.PENDING)], [APPLIED])
    scene.queue.records[BUFFER] = record()
    client = scene.open().client()
    client.send(replace(recall(), flag=IS_ONE_WAY))
    assert client.ask(Command(Request.HEART_BEAT, opaque=9)).opaque == 9
    while not scene.count("delayline_rocketmq_proxy_recalls_total", {"code": "0"}):
        client.ask(Command(Request.HEART_BEAT))
