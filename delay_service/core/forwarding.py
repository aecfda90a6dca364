"""Forwards an operation that was sent to the wrong partition to the shard of its message, once.

The sender of a plain record chooses its partition, and need not know in which partition the message is. The forwarded
operation is like any other of that shard, with its time made absolute, and is decided in that log's order. It carries
a mark that it was forwarded, so that two shards never send one back and forth.
"""

from collections.abc import Container

from delayline.buffer.record import Operation, encode_forwarded
from delayline.names import Names
from delayline.records.message import MessageId, Shard
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
