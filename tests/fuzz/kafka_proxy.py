"""Frames to the Kafka proxy, and batches straight into a buffer topic, of a whole installation on a broker.

The canary goes through the proxy into the same topic and partition that is attacked: one bad batch must hurt none.
"""

import socket
import struct
import time
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Self

import google_crc32c
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkawire.protocol.apis import APIS
from kafkawire.protocol.message import Message, RequestHeader, encode, request_frame
from kafkawire.protocol.messages import cluster, facts, fetch, metadata, produce, transactions
from tests.acceptance.on_kafka import make_topic, settings_of
from tests.brokers.kafka import Kafka
from tests.fault.server import Server
from tests.fuzz.campaign import Broken, Campaign, resident_bytes
from tests.integration.proxy.wire_client import WireClient
from tests.ports import free_range
from tests.unit.mq.kafka.batches import CODECS, COMPRESS, SNAPPY, SNAPPY_XERIAL, batch_of, plain, with_payload

RESIDENT_MAX = 2 << 30
ANSWER_S = 30.0
DELAY_MS = 300
LATE_S = 60.0
TOPIC = "orders-fuzz"
DIRECTIVES: tuple[dict[str, bytes], ...] = (
    {"delay": b"300ms"}, {"delay_ms": b"1"}, {"delay_ms": b"9"},
    {"delay_ms": b"-7"}, {"deliver_at": b"x"}, {"trace": b"x"}, {},
)  # fmt: skip
CRC_AT, CRC_FROM = 17, 21


def with_checksum(batch: bytes) -> bytes:
    """The batch with the checksum and the length that it ought to have, so that what is wrong lies deeper."""
    if len(batch) < 61:
        return batch
    crc = struct.pack(">I", google_crc32c.value(batch[CRC_FROM:]))
    return batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:CRC_AT] + crc + batch[CRC_FROM:]


class KafkaProxy(Campaign):
    """Broker, server and proxy in processes of their own."""

    name = "kafka"
    covers = ("proxy/kafka/*", "kafkawire/batch/*", "kafkawire/client/fetched.py", "kafkawire/client/reader.py")
    judge_every_s = 5.0

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self._stack = ExitStack()
        self._correlation = count(1)

    def __enter__(self) -> Self:
        kafka = self._stack.enter_context(closing(Kafka()))
        kafka.start()
        make_topic(kafka, TOPIC)
        self.port = free_range(4)
        settings = {**settings_of(kafka), "proxy__kafka__port": str(self.port), "proxy__kafka__nodes_max": "3"}
        self.server = Server(self.folder / "data", **settings)
        self._stack.callback(self.server.stop)
        self.server.start()
        self.server.wait_ready()
        self.buffer = f"{settings['namespace']}.buffer.{TOPIC}"
        self.broker = kafka.bootstrap_servers
        self.producer = Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "linger.ms": 0})
        self.consumer = Consumer(
            {"bootstrap.servers": self.broker, "group.id": "fuzz", "auto.offset.reset": "latest"}
        )
        self._stack.callback(self.consumer.close)
        self.judge()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- what is sent

    def case(self) -> str:
        match self.random.randrange(10):
            case 0 | 1 | 2:
                return self._batch_through_the_proxy()
            case 3 | 4 | 5:
                return self._batch_into_the_buffer()
            case _:
                return self._frame()

    def _batch(self) -> bytes:
        """A sound one, then changed in its records, in its head, or behind its compression; its checksum fits."""
        random = self.random
        sent = [plain(n, **self.mutator.pick(of=DIRECTIVES)) for n in range(random.randrange(1, 5))]
        batch, codec = (
            batch_of(sent, producer_id=-1, producer_epoch=-1, base_sequence=-1),
            self.mutator.pick(of=CODECS),
        )
        records = self.mutator.some(batch[61:]) if random.random() < 0.5 else batch[61:]
        packed = COMPRESS[codec](records)
        packed = self.mutator.some(packed) if random.random() < 0.2 else packed
        batch = with_payload(batch, packed, SNAPPY if codec == SNAPPY_XERIAL else codec)
        if random.random() < 0.5:
            batch = batch[:CRC_FROM] + self.mutator.some(batch[CRC_FROM:])
        return batch if random.random() < 0.05 else with_checksum(batch)

    def _produce(self, topic: str) -> bytes:
        partition = produce.ProducePartition(0, self._batch())
        acks = self.mutator.pick(of=(-1, -1, 1, 0, 7))
        version = self.mutator.pick(of=(3, 7, 9, 11, 12))
        request = produce.ProduceRequest(
            transactional_id=None, acks=acks, timeout_ms=3000, topic_data=[produce.ProduceTopic(topic, [partition])]
        )
        return self._framed(request, version)

    def _framed(self, request: Message, version: int) -> bytes:
        header = RequestHeader(request.api, version, next(self._correlation), "fuzz")
        return b"".join(request_frame(header, encode(request, version)))

    def _batch_through_the_proxy(self) -> str:
        return f"batch {self._sent(self.port, self._produce(TOPIC))}"

    def _batch_into_the_buffer(self) -> str:
        port = int(self.broker.rpartition(":")[2])
        return f"buffer {self._sent(port, self._produce(self.buffer))}"

    def _frame(self) -> str:
        requests: tuple[Message, ...] = (
            cluster.ApiVersionsRequest(),
            metadata.MetadataRequest(),
            cluster.FindCoordinatorRequest(),
            cluster.DescribeClusterRequest(),
            fetch.FetchRequest(),
            facts.ListOffsetsRequest(),
            transactions.DescribeProducersRequest([]),
        )
        request = self.mutator.pick(of=requests)
        api = APIS[request.api]
        frame = self._framed(request, self.random.randint(api.oldest, api.newest))
        if self.random.random() < 0.3:
            frame = self._produce(TOPIC)
        payload = self.mutator.some(frame[4:])
        length = len(payload) if self.random.random() < 0.8 else self.mutator.pick(of=(0, -1, 2**31 - 1, 7, 1 << 20))
        return f"frame {self._sent(self.port, struct.pack('>i', length) + payload)}"

    def _sent(self, port: int, data: bytes) -> str:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            connection.settimeout(ANSWER_S)
            with suppress(ConnectionError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                try:
                    return "answered" if connection.recv(1 << 16) else "closed"
                except TimeoutError:
                    raise Broken(f"neither answered nor closed within {ANSWER_S:.0f} s: {data!r}") from None
        return "closed"

    # --- what holds for others

    def judge(self) -> None:
        if (resident := resident_bytes(self.server.pid)) > RESIDENT_MAX:
            raise Broken(f"{resident >> 20} MiB resident")
        with closing(WireClient(f"127.0.0.1:{self.port}")) as client:
            client.ask(cluster.ApiVersionsRequest(), 0, cluster.ApiVersionsResponse)
        where = TopicPartition(TOPIC, 0)
        end = self.consumer.get_watermark_offsets(where, timeout=ANSWER_S)[1]
        self.consumer.assign([TopicPartition(TOPIC, 0, end)])
        canary = b"canary %d" % self.random.getrandbits(60)
        self.producer.produce(TOPIC, canary, headers={"delay-ms": b"%d" % DELAY_MS}, partition=0)
        if self.producer.flush(ANSWER_S):
            raise Broken(f"a good message was not taken in within {ANSWER_S:.0f} s: {self.server.tail_of_log()}")
        sent = time.monotonic()
        while time.monotonic() - sent < LATE_S:
            message = self.consumer.poll(0.5)
            if message is not None and message.error() is None and message.value() == canary:
                return
        raise Broken(f"a good message was not delivered within {LATE_S:.0f} s: {self.server.tail_of_log()}")
