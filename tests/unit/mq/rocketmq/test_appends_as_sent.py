"""What goes straight to a topic, such as a dead letter that is sent again, goes as its producer has sent it."""

import zlib
from concurrent.futures import Future
from threading import Lock
from types import SimpleNamespace
from typing import Any

from delayline.clock import SystemClock
from delayline.records.message import Header
from delayline.records.record import encode_body
from mq.contract import Append
from mq.rocketmq.appends import Appends
from mq.rocketmq.log_ends import LogEnds
from mq.rocketmq.sent import sent_header
from rocketmq.client.broker import Sent
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from rocketmq.wire.headers.send import SendMessageAnswer
from tests.unit.mq.rocketmq.scene import SETTINGS, noted

PACKED = zlib.compress(b"value")


class Requests:
    """Stores what comes; the first request is answered later."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[BatchMember], int]] = []
        self.first: Future[Sent] = Future()
        self.lock = Lock()

    def send_batch_later(self, queue: Queue, members: list[BatchMember], *, sys_flag: int = 0) -> "Future[Sent]":
        with self.lock:
            self.sent.append((queue.topic, list(members), sys_flag))
            return self.first if len(self.sent) == 1 else self.stored()

    def stored(self) -> "Future[Sent]":
        future: Future[Sent] = Future()
        future.set_result(Sent(0, SendMessageAnswer("7F00000100002A9F0000000000000000", 0, 0)))
        return future

    def view_later(self, *_: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(stored_ms=1))
        return future


def body(sys_flag: int) -> bytes:
    sent = sent_header(0, sys_flag)
    headers: list[Header] = [] if sent is None else [sent]
    return encode_body(None, PACKED, headers)


def test_a_compressed_body_is_marked_as_such_in_a_topic_and_not_in_a_buffer() -> None:
    requests: Any = Requests()
    cluster: Any = SimpleNamespace(
        queue_held=lambda topic, _: (Queue(topic.replace(".", "%"), "a", 0), SimpleNamespace(is_writable=True)),
        stored=noted,
    )
    appends = Appends(SETTINGS, cluster, requests, SystemClock(), LogEnds())
    try:
        futures = [appends.append([Append("orders", "a:0", body(0))])]
        futures += [appends.append([Append("orders", "a:0", body(flag))]) for flag in (0x301, 0x301, 0)]
        requests.first.set_result(requests.stored().result())
        futures.append(appends.append([Append("ns.buffer.orders", "a:0", body(0x301))]))
        for future in futures:
            future.result(10)
    finally:
        appends.close()
    to_topic = [(len(members), flag) for topic, members, flag in requests.sent if topic == "orders"]
    assert sum(count for count, flag in to_topic if flag == 0x301) == 2
    assert sum(count for count, flag in to_topic if flag == 0) == 2
    ((_, (waiting,), flag),) = [one for one in requests.sent if one[0] != "orders"]
    assert (flag, "delayline-sent" in waiting.properties) == (0, True)
    assert not any(
        "delayline-sent" in one.properties for topic, some, _ in requests.sent for one in some if topic == "orders"
    )
