"""Bytes that are no frames, frames that do not end, clients that are silent: others go on."""

import struct
from dataclasses import replace
from random import Random

import pytest

from proxy.limits import Limits
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, encode_frame
from tests.tiers import sample
from tests.unit.proxy.rocketmq.scene import BUFFER, CLOCK, WITHIN_S, Scene, message

pytestmark = pytest.mark.slow

MIB = 1 << 20


def is_served(scene: Scene) -> None:
    assert scene.client().ask(message(DELAY="1")).code == 0


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
        struct.pack(">iI", 2**31 - 1, 0),
        struct.pack(">iI", -1, 0),
        struct.pack(">iI", 0, 0),
        struct.pack(">iI", 8 * MIB, 2 * MIB),
        struct.pack(">iI", 10, 100),
        struct.pack(">iI", 10, 7 << 24 | 2) + b"{}      ",
        struct.pack(">iI", 6, 2) + b"{}",
        struct.pack(">iI", 16, 12) + b'{"code":"x"}',
    ],
)
def test_what_is_no_frame_ends_its_connection_alone(scene: Scene, data: bytes) -> None:
    other = scene.open().client()
    for port in (scene.port, scene.port + 4):
        client = scene.client(port)
        client.channel.sendall(data)
        assert client.is_closed()
    assert other.ask(message(DELAY="1")).code == 0


def in_json(header: bytes, body: bytes = b"body") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


UNREADABLE = [
    b"{'code':310,'opaque':5,'extFields':{}}",
    b'{"code":310,"opaque":5,}',
    b'{"code":310,"opaque":5,"extFields":{"b":"orders","m":"true","z":{}}}',
    b'{"opaque":5}',
]


@pytest.mark.parametrize(("header", "to"), [*((one, 4) for one in UNREADABLE), (UNREADABLE[0], 0)])
def test_a_request_that_cannot_be_read_is_answered_and_its_client_goes_on(
    scene: Scene, header: bytes, to: int
) -> None:
    """By a broker's port, and by a name server's."""
    client = scene.open().client(scene.port + to)
    one_way = header[:-1].rstrip(b",") + b',"flag":2,,}'
    client.channel.sendall(in_json(one_way) + in_json(header, bytes(MIB)) + in_json(header))
    for answer in (client.receive(), client.receive()):
        assert (answer.code, answer.opaque) == (Answer.SYSTEM_ERROR, 5)
        assert "cannot be read" in answer.remark
    client = client if to else scene.client()
    assert client.ask(message(DELAY="1")).code == 0
    assert scene.count("delayline_rocketmq_proxy_held_bytes") == 0


def test_an_answer_that_cannot_be_read_ends_the_connection(scene: Scene) -> None:
    """Its number is the broker's, and could be that of a request of the client."""
    client = scene.open().client()
    client.channel.sendall(in_json(b"{'code':0,'opaque':5,'flag':1}"))
    assert client.is_closed()


def test_an_unknown_code_is_for_the_broker_to_refuse(scene: Scene) -> None:
    scene.open()
    assert scene.client().ask(Command(30_000, opaque=2)).opaque == 2


def test_requests_that_do_not_end_take_no_more_than_the_budget_and_a_deadline_frees_it(scene: Scene) -> None:
    scene.settings = replace(scene.settings, limits=Limits(held_bytes_max=4 * MIB, frame_timeout_s=0.5))
    clients = [scene.open().client() if not number else scene.client() for number in range(3)]
    frame = b"".join(encode_frame(message(body=bytes(2 * MIB), DELAY="1")))
    for client in clients:
        client.channel.sendall(frame[:20_000])
    until_s = CLOCK.monotonic_s() + WITHIN_S
    while not 0 < scene.count("delayline_rocketmq_proxy_held_bytes") <= 4 * MIB:
        assert CLOCK.monotonic_s() < until_s
    is_served(scene)
    assert all(client.is_closed() for client in clients)
    while scene.count("delayline_rocketmq_proxy_held_bytes"):
        assert CLOCK.monotonic_s() < until_s
    assert scene.count("delayline_rocketmq_proxy_limited_total", {"limit": "frame_timeout"}) == 3


def test_a_silent_client_is_closed(scene: Scene) -> None:
    scene.settings = replace(scene.settings, limits=Limits(idle_timeout_s=1))
    client = scene.open().client()
    assert client.ask(Command(Request.HEART_BEAT)).code == 0
    assert client.is_closed()
    assert scene.count("delayline_rocketmq_proxy_limited_total", {"limit": "idle_timeout"}) == 1


def test_connections_of_one_address_are_bounded(scene: Scene) -> None:
    scene.settings = replace(scene.settings, limits=Limits(connections_per_address_max=2))
    first = scene.open().client()
    scene.client()
    assert first.ask(Command(Request.HEART_BEAT)).code == 0
    assert scene.client().is_closed()
    first.close()


def test_what_a_broker_sends_that_is_no_frame_ends_the_connection(scene: Scene) -> None:
    scene.broker.others = lambda link, _: link.send_bytes(b"\xff" * 20)
    client = scene.open().client()
    client.send(Command(Request.HEART_BEAT))
    assert client.is_closed()
    is_served(scene)


@pytest.mark.parametrize("seed", sample(range(40), every=8))
def test_damaged_streams_never_reach_the_buffer_as_something_else(scene: Scene, seed: int) -> None:
    """Whatever is left of a message: it is stored whole, refused, or its connection ends."""
    random, scene_port = Random(seed), scene.open().port + 4
    good = b"".join(encode_frame(message(DELAY="1", KEYS="k")))
    for _ in range(20):
        stream = bytearray(good * 2)
        for _ in range(random.randint(1, 4)):
            stream[random.randrange(len(stream))] = random.randrange(256)
        client = scene.client(scene_port)
        client.channel.sendall(bytes(stream))
        client.close()
    is_served(scene)
    assert all(one.fields.get("m") == "true" for one in scene.broker.peer.seen if one.fields.get("b") == BUFFER)
