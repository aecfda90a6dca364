"""Operations that were sent to another partition than their message's go on to the right one, once.

The sender of a plain record chooses its partition, and need not know where the message stands that it speaks of. What
goes on is an operation of the other shard like any other, with its time made absolute: it is decided there, in that
log's order. It says that it was forwarded, so that two shards never send one to and fro.
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
    return Append(names.buffer(topic), partition, encode_forwarded(operation))
