"""A frame that passes in parts stays whole, whatever the proxy itself writes meanwhile, in both directions."""

import socket
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.endpoint import WRITE_BYTES_HIGH, Endpoint
from proxy.rocketmq.frontend.outlet import Outlet
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, answer_to, decode_frame, encode_frame
from rocketmq.wire.frames import FrameSplitter
from rocketmq.wire.passing import Passing, PassingSplitter
from tests.acceptance.asking import wait_for
from tests.unit.proxy.rocketmq.scene import BUFFER, Scene, Wire, message

BIG = b"A" * 4000


class Peer(Endpoint):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(lambda: None, lambda _: None, lambda: None, lambda _: None)
        self.received = b""

    def write(self, parts: Any) -> None:
        self.received += b"".join(parts)


def frame(number: int, body: bytes) -> bytes:
    return b"".join(encode_frame(Command(number, opaque=number, body=body)))


@given(
    bodies=st.lists(st.binary(max_size=400), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 200), max_size=30),
    wanted=st.sets(st.integers(0, 7)),
    own=st.lists(st.booleans(), max_size=30),
)
def test_frames_are_whole_wherever_they_are_cut_and_whatever_is_written_between(
    bodies: list[bytes], cuts: list[int], wanted: set[int], own: list[bool]
) -> None:
    """What is wanted is written again, whole; behind each part another frame may be, as `own` has it."""
    peer, took = Peer(), []
    outlet = Outlet(peer, lambda _: None)
    splitter = PassingSplitter(lambda head, _: decode_opaque(head) in wanted)
    expected = list(enumerate(bodies))
    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    for step in range(len(cuts) + 1):
        length = cuts[step] if step < len(cuts) else len(stream)
        part, stream = stream[:length], stream[length:]
        for one in splitter.feed(part):
            if isinstance(one, Passing):
                outlet.pass_on(bytes(one.data), is_within=splitter.is_within)
            else:
                took.append(one)
                outlet.write([len(one.payload).to_bytes(4, "big"), bytes(one.payload)])
        if step < len(own) and own[step]:
            outlet.write([frame(99, b"own")])
            expected.append((99, b"own"))
    found = [decode_frame(payload) for payload in FrameSplitter().feed(peer.received)]
    assert sorted((one.code, bytes(one.body)) for one in found) == sorted(expected)


def decode_opaque(head: memoryview) -> int:
    return decode_frame(head).opaque


def test_what_waits_is_bounded_by_not_reading_on() -> None:
    calls: list[bool] = []
    outlet = Outlet(peer := Peer(), calls.append)
    outlet.pass_on(b"par", is_within=True)
    outlet.write([bytes(WRITE_BYTES_HIGH)])
    assert calls == []
    outlet.write([b"more"])
    assert (calls, peer.received) == ([True], b"par")
    outlet.pass_on(b"t", is_within=False)
    assert (calls, peer.received) == ([True, False], b"part" + bytes(WRITE_BYTES_HIGH) + b"more")


def test_a_delayed_send_is_not_written_into_the_midst_of_another_send(scene: Scene) -> None:
    client = scene.open().client()
    assert client.ask(message(DELAY="1")).code == 0, "its buffer is there"
    plain = b"".join(encode_frame(message(body=BIG)))
    half = len(plain) // 2
    delayed = b"".join(encode_frame(message(DELAY="1")))
    client.channel.sendall(delayed + plain[:half])
    assert client.receive().code == 0, "it does not wait for the rest of the other"
    client.channel.sendall(plain[half:])
    assert client.receive().code == 0
    assert [one.body for one in scene.broker.peer.seen if len(one.body) >= len(BIG)] == [BIG]


def test_a_send_that_waits_for_its_buffer_is_not_written_into_the_midst_of_another_send(scene: Scene) -> None:
    scene.queue.ready.clear()
    client = scene.open().client()
    plain = b"".join(encode_frame(message(body=BIG)))
    client.channel.sendall(b"".join(encode_frame(message(DELAY="1"))) + plain[:-5])
    Thread(target=scene.queue.ready.set).start()
    client.channel.settimeout(10)
    assert wait_for(lambda: len(scene.queue.ensured), bool)
    client.channel.sendall(plain[-5:])
    assert [client.receive().code for _ in range(2)] == [0, 0]
    assert [one.body for one in scene.broker.peer.seen if len(one.body) >= len(BIG)] == [BIG]
    assert scene.broker.offsets[BUFFER] == 1


def answers_of(client: Wire, count: int, read: bytes) -> list[Command]:
    """The next frames, of which this has been read."""
    frames, found, data = FrameSplitter(), [], read
    while data:
        found += [decode_frame(payload) for payload in frames.feed(data)]
        data = client.channel.recv(1 << 16) if len(found) < count else b""
    return found


@pytest.mark.parametrize("is_ended", [False, True])
def test_an_answer_of_the_proxys_is_not_written_into_the_midst_of_a_brokers(scene: Scene, is_ended: bool) -> None:
    waiting = scene.broker.keep_others()
    client = scene.open().client()
    client.send(Command(Request.PULL_MESSAGE, {"topic": "orders"}, opaque=6), message())
    assert client.receive().opaque == 7
    link, pull = waiting[0]
    answer = b"".join(encode_frame(answer_to(pull, 0, body=BIG)))
    link.send_bytes(answer[:-1])
    first = client.channel.recv(len(answer))
    client.send(message(DELAY="x"), Command(Request.HEART_BEAT, opaque=8))
    if is_ended:
        client.channel.shutdown(socket.SHUT_WR)
    assert wait_for(lambda: len(waiting), lambda count: count == 2) == 2
    link.send_bytes(answer[-1:])
    found = answers_of(client, 2, first)
    assert [(one.opaque, one.code) for one in found] == [(6, 0), (7, Answer.SYSTEM_ERROR)]
    assert found[0].body == BIG
