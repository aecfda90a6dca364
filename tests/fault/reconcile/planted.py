"""What must never happen, written by hand into a live installation on Kafka. Each is found once, by name."""

import time

from confluent_kafka import Producer

from delayline.buffer.decisions import encode_decision
from delayline.buffer.outcome import OUTCOMES, AuditRow, Outcome, decode_audit, encode_audit, spread
from delayline.records.message import Key, MessageId, Shard
from delayline.records.record import decode_body
from mq.kafka.librdkafka.bodies import Headers
from reconcile.logic.ledger import Category
from tests.fault.kafka.nemesis import Nemesis
from tests.fault.kafka.scene import Scene

NOWHERE = 1 << 40
"""An offset that no buffer has come to."""


class Planted:
    """Writes into topics of the scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        servers = scene.kafka.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0})

    def in_target(self) -> dict[str, int]:
        """A delivered record once more."""
        topic, number = next(shard for shard in self._scene.shards if self._scene.reader.seen[shard])
        self._write(topic, number, self._scene.reader.seen[topic, number][0].body)
        return {Category.DUPLICATED.value: 1}

    def in_audit(self) -> dict[str, int]:
        """An outcome row of a record that there is not, and one that stands there a second time."""
        shard, row, epoch, at_ms = self._delivered()
        nobodys = row._replace(offset=NOWHERE, id=str(MessageId(shard, NOWHERE, row.due_ms or 0)))
        for one in (nobodys, row):
            (body,) = encode_audit(shard, epoch, at_ms, [one])
            self._append(shard, body)
        return {Category.ORPHAN.value: 1, Category.DUPLICATED.value: 1}

    def lost(self, ids: list[str], nemesis: Nemesis) -> None:
        """Decisions that name these messages: their owners, who are killed before, take them for ended."""
        for worker in self._scene.workers:
            nemesis.dispatch(worker)
        for message in map(MessageId.parse, ids):
            decision = encode_decision([Key(message.due_ms, message.offset)])
            self._write(self._scene.names.buffer(message.shard.topic), int(message.shard.partition), decision)
        for worker in self._scene.workers:
            worker.start()

    def _delivered(self) -> tuple[Shard, AuditRow, int, int]:
        for (name, _), records in self._scene.reader.seen.items():
            for seen in records if name == self._scene.names.audit else ():
                audit, rows = decode_audit(decode_body(seen.body).value or b"")
                for row in rows if audit.kind == OUTCOMES else ():
                    if row.outcome == Outcome.DELIVERED and row.id and "~" not in row.id:
                        return (
                            Shard(audit.topic, audit.shard),
                            row._replace(outcome=Outcome.DELIVERED),
                            audit.epoch,
                            audit.at,
                        )
        raise AssertionError("nothing was delivered")

    def _append(self, shard: Shard, body: bytes) -> None:
        audit = self._scene.names.audit
        partitions = sum(name == audit for name, _ in self._scene.reader.seen)
        self._write(audit, spread(shard, partitions), body)

    def _write(self, topic: str, partition: int, body: bytes) -> None:
        """Returns when the scene's reader has it."""
        record = decode_body(body)
        headers: Headers = [(name.decode(), value) for name, value in record.headers]
        before = len(self._scene.reader.seen[topic, partition])
        self._producer.produce(topic, record.value, record.key, partition, headers=headers)
        assert self._producer.flush(30) == 0
        until_s = time.monotonic() + 30
        while len(self._scene.reader.seen[topic, partition]) == before and time.monotonic() < until_s:
            time.sleep(0.01)
