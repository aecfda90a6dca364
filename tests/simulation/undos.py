"""Purges and cancels that may be undone, and the API that brings messages back: each copy once, at any later time.

What comes back is the very record of the copy. What it must mean is put together from the copy as the documented
format has it; whether the copy is right, the checker compares with what was sent.

Chance has a generator of its own: the runs without undos are the same as without this module.
"""

from random import Random

from delayline.records.message import Shard
from delayline.records.record import decode_body, encode_body
from mq.contract import ShardBatch
from tests.simulation.facts import copy_of
from tests.simulation.history import CONTROL, MESSAGE, Appended, Copy, Terms
from tests.simulation.scene import Scene, name_of
from tests.simulation.traffic import REFUSED_BY_TARGET

OFTEN = 0.4


class Undos:
    """The part of a run that is about undos."""

    def __init__(self, seed: int, scene: Scene) -> None:
        self._rnd = Random(f"undos {seed}")
        self._happen = self._rnd.random() < 0.4
        self._scene = scene
        self._copies: list[tuple[Shard, bytes]] = []
        self._number = 0
        scene.hear_copies = self._hear

    def asked(self, record: bytes, fact: Appended) -> tuple[bytes, Appended]:
        """The operation or the control, perhaps with the id of an undo; a pause and the like are never undone."""
        ends = fact.control == "purge" if fact.kind == CONTROL else fact.due_ms is None
        if not self._happen or not ends or self._rnd.random() < 0.2:
            return record, fact
        self._number += 1
        undo = f"0.{self._number}"
        key, value, headers = decode_body(record)
        return encode_body(key, value, [*headers, (b"delayline-undo", undo.encode())]), fact._replace(undo=undo)

    def _hear(self, part: ShardBatch) -> None:
        self._copies += [(part.shard, body) for body in part.purged]
        self._scene.seen["copy written for an undo"] += len(part.purged)

    @property
    def is_owed(self) -> bool:
        """Whether anything could come back."""
        return bool(self._copies)

    def step(self) -> Appended | None:
        """Perhaps a message that comes back."""
        if not self._copies or self._rnd.random() >= OFTEN:
            return None
        shard, body = self._copies.pop(self._rnd.randrange(len(self._copies)))
        copy, partition, at_ms = copy_of(body), self._scene.broker.partitions[shard], self._scene.broker.now_ms
        due_ms, terms = _wanted(copy, at_ms)
        offset = partition.append(at_ms, body)
        is_refused = REFUSED_BY_TARGET in (copy.payload[1] or b"")
        self._scene.seen["message came back"] += 1
        self._scene.seen["message came back behind its time"] += copy.due_ms < at_ms
        self._scene.seen["message came back behind its deadline"] += (terms.expire_at_ms or at_ms) < at_ms
        self._scene.trace("append {} #{} {} comes back", shard, offset, copy.id)
        message_id = f"{name_of(shard)}.{offset}.{due_ms}"
        times = at_ms, message_id, due_ms, at_ms
        return Appended(name_of(shard), offset, MESSAGE, *times, copy.payload, is_refused, is_refused, terms=terms)


def _wanted(copy: Copy, at_ms: int) -> tuple[int, Terms]:
    """When it is due, and what it asks for: behind its time it is due at once, and expires when it would have."""
    terms = copy.terms
    if terms.repeats or copy.due_ms >= at_ms:
        return copy.due_ms, terms
    deadline_ms = terms.expire_at_ms if terms.ttl_ms is None else copy.due_ms + terms.ttl_ms
    return at_ms, terms._replace(expire_at_ms=deadline_ms, ttl_ms=None)
