"""Forwards an operation that was sent to the wrong partition to the shard of its message, once.

The sender of a plain record chooses its partition, and need not know in which partition the message is. The forwarded
operation is like any other of that shard, with its time made absolute, and is decided in that log's order. It carries
a mark that it was forwarded, so that two shards never send one back and forth.
"""

from collections.abc import Container

from delayline.buffer.record import Operation
from delayline.names import Names
from delayline.records.headers import FORWARDED, IF_MATCH, UNDO
from delayline.records.message import Header, MessageId, Shard
from delayline.records.record import encode_body
from mq.contract import Append


def forward(operation: Operation, here: Shard, partitions: Container[str], names: Names) -> Append | None:
    """The record that brings the operation to its message's shard, if that is another one of this topic, whose
    partitions these are; None where it is decided here."""
    ref = operation.ref
    if not isinstance(ref, MessageId) or ref.shard == here or operation.forwarded:
        return None
    topic, partition = ref.shard
    if topic != here.topic or partition not in partitions:
        return None
    # On RocketMQ a commit writes to one broker alone: it would wait for another, and could be written there twice.
    if ref.shard.broker != here.broker:
        return None
    return Append(names.buffer(topic), partition, encode_forwarded(operation))


def encode_forwarded(operation: Operation) -> bytes:
    """The body of the operation for the shard that it belongs to: its time is absolute, as counted from its own
    append time. An operation's key and value mean nothing, and are left behind."""
    headers: list[Header] = [
        (b"delay-op", b"cancel" if operation.due_ms is None else b"reschedule"),
        (b"delay-ref", str(operation.ref).encode()),
        (FORWARDED, b"1"),
    ]
    if operation.due_ms is not None:
        headers.append((b"deliver-at", b"%d" % operation.due_ms))
    if operation.version is not None:
        headers.append((IF_MATCH, b"%d" % operation.version))
    if operation.undo is not None:
        headers.append((UNDO, operation.undo.encode()))
    return encode_body(None, None, headers)
