"""Messages that are gone from within a queue.

A broker that deletes the files of its commit log answers a pull with the first message behind `offset` that is still
there, `FOUND`, until the queue's own files are gone as well (`DefaultMessageStore.getMessage`).
"""

from rocketmq.client.broker import Pulled, PullStatus


def gap_in(offset: int, pulled: Pulled) -> range | None:
    """The first offsets, from `offset` on, that the queue has had and has no more; None where there are none."""
    if pulled.status is PullStatus.OFFSET_MOVED and offset < pulled.min_offset:
        return range(offset, pulled.min_offset)
    for expected, message in enumerate(pulled.messages, offset):
        if message.queue_offset != expected:
            return range(expected, message.queue_offset)
    return None


def deleted(what: str, gap: range) -> str:
    """The text of an error; `what` names the queue."""
    return f"{what}: offsets {gap.start} to {gap.stop} have been deleted"
