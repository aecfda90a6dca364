"""RocketMQ's protocol in Python: CPU of single steps, and batched sends and pulls beside RocketMQ's own Java client.

Messages of 256 bytes with a key. Steps are timed over many rounds, and the fastest counts. Laps on the broker take
turns between the two clients, each with a queue of its own on one connection; neither checks what the other has sent.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial

from bench.on_rocketmq.peer import JavaPeer, java_peer
from bench.report import Lap, Report, measured
from rocketmq.client.client import Client
from rocketmq.wire.batch import encode_batch, member
from rocketmq.wire.bodies import Queue
from rocketmq.wire.command import Command, Encoding, decode_frame, encode_frame
from rocketmq.wire.headers.send import SendMessageV2
from rocketmq.wire.stored import StoredMessage, encode_message, read_messages
from tests.brokers.rocketmq import BROKER, RocketMq, jars

BATCH, PULLED, IN_FLIGHT, BODY_BYTES = 64, 992, 4, 256
BATCHES = 1000
LAPS, ROUNDS = 3, 5
TOPIC = "bench"
_BODY = bytes(BODY_BYTES)
_STORED = StoredMessage(
    *("bench", 0, 1, 1, _BODY, b"KEYS\x01key\x02", 0, 0, 1_767_225_600_000, bytes(4), 1, 1_767_225_600_000),
    *(bytes(4), 1, 0, 0, 0),
)
_MEMBERS = [member(_BODY, {"KEYS": "key"})] * BATCH


def run(scale: float) -> Report:
    """About a minute."""
    report = Report("RocketMQ: the protocol in Python")
    times = max(int(2000 * scale), 20)
    for name, (step, items) in _steps().items():
        cost_s = min(_cost_s(step, times) for _ in range(ROUNDS))
        report.add(name, items * times / cost_s, "/CPU s")
    with closing(RocketMq(java_options=())) as server:
        server.start()
        _add_laps(report, server, max(int(BATCHES * scale), 10))
    report.notes.append(f"{BODY_BYTES} B, batches of {BATCH}, {IN_FLIGHT} under way, pulls of up to 1000 and 1 MiB")
    return report


def _cost_s(step: Callable[[], object], times: int) -> float:
    with measured() as lap:
        for _ in range(times):
            step()
    return lap.cpu_s


def _steps() -> dict[str, tuple[Callable[[], object], int]]:
    """Each with how many items it handles."""
    steps: dict[str, tuple[Callable[[], object], int]] = {}
    for encoding in Encoding:
        payload = memoryview(b"".join(encode_frame(_send_command(encoding))))[4:]
        name = f"frames, {encoding.name}"
        steps[f"{name}, header made and encoded"] = (partial(_write_send, encoding), 1)
        steps[f"{name}, decoded, header read"] = (partial(_read_send, payload), 1)
    data = encode_message(_STORED) * PULLED
    steps["messages of a batch, encoded"] = (partial(encode_batch, _MEMBERS), BATCH)
    steps["messages of a pull, decoded and checked"] = (partial(read_messages, data), PULLED)
    return steps


def _send_command(encoding: Encoding) -> Command:
    header = SendMessageV2("group", "bench", 1, 0, 1_767_225_600_000, 0, "KEYS\x01key\x02", broker="broker-a")
    return Command(310, header.to_fields(), _BODY, encoding=encoding)


def _write_send(encoding: Encoding) -> None:
    encode_frame(_send_command(encoding))


def _read_send(payload: memoryview) -> SendMessageV2:
    return SendMessageV2.from_fields(decode_frame(payload).fields)


def _add_laps(report: Report, server: RocketMq, batches: int) -> None:
    ours, queue = {"send": Lap(), "pull": Lap()}, Queue(TOPIC, BROKER, 0)
    java = {"send": Lap(), "pull": Lap()}
    with Client(server.settings) as client:
        client.admin.create_topic(TOPIC, BROKER, 2)
        client.admin.create_group("bench-consumer", BROKER)
        options = (TOPIC, BROKER, str(BATCH), str(IN_FLIGHT), str(BODY_BYTES))
        with java_peer(jars(), server.settings.name_servers[0], *options) as peer:
            _one_lap(client, queue, peer, batches, {"send": Lap(), "pull": Lap()}, {"send": Lap(), "pull": Lap()})
            for _ in range(LAPS):
                _one_lap(client, queue, peer, batches, ours, java)
    messages = LAPS * batches * BATCH
    for act in ("send", "pull"):
        report.add(f"{act}, this client", messages / ours[act].wall_s, "messages/s")
        report.add(f"{act}, Java's client", messages / java[act].wall_s, "messages/s")
        report.add(f"{act}, this client per CPU second", messages / ours[act].cpu_s, "/CPU s")
        report.add(f"{act}, Java's client per CPU second", messages / java[act].cpu_s, "/CPU s")


def _one_lap(
    client: Client, queue: Queue, peer: JavaPeer, batches: int, ours: dict[str, Lap], java: dict[str, Lap]
) -> None:
    with measured(ours["send"]):
        _send(client, queue, batches)
    peer.lap("send", batches, java["send"])
    with measured(ours["pull"]):
        _pull(client, queue, batches * BATCH)
    peer.lap("pull", batches * BATCH, java["pull"])


def _send(client: Client, queue: Queue, batches: int) -> None:
    under_way = []
    for _ in range(batches):
        members = [member(_BODY, {"KEYS": "key"}) for _ in range(BATCH)]
        under_way.append(client.broker.send_batch_later(queue, members))
        if len(under_way) == IN_FLIGHT:
            under_way.pop(0).result()
    for one in under_way:
        one.result()


def _pull(client: Client, queue: Queue, messages: int) -> None:
    """So many, from the beginning."""
    seen, offset = 0, 0
    while seen < messages:
        found = client.broker.pull(queue, offset)
        seen, offset = seen + len(found.messages), found.next_offset
