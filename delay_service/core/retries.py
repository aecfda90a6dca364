"""Retries: a message that a consumer group has sent back goes to a topic of that group when it is due, or to the
group's dead letters. Other consumers of its first topic do not see it again. Page: docs/howto/retry.md.
"""

from delayline.names import Names
from delayline.records import headers
from delayline.records.message import Header, Shard
from delayline.records.record import Record, decode_packed, encode_body
from delayline.schedule.terms import Retry
from mq.contract import Append

RETRIED = "retry"
EXHAUSTED = "retry-exhausted"
"""Reasons of outcome rows: delivered, but to the group; dead, and among the group's dead."""


def as_sent_back(record: Record, retry: Retry) -> Record:
    """The record with headers that name its group: among Delayline's dead letters nothing else does."""
    of_group = [(b"delay-retry", retry.group.encode()), (headers.ATTEMPT, b"%d" % retry.attempt)]
    return record._replace(headers=[*record.headers, *of_group])


def give_back(retry: Retry, shard: Shard, names: Names, packed: bytes, message_id: str, due_ms: int) -> Append:
    """The record for the group: the message as it was sent back, where it came from, and how often it was given to
    the group again, this time included. Its partition is that of the shard, as far as the group's topic has it."""
    key, value, kept = decode_packed(packed)
    added: list[Header] = [
        (headers.ID, message_id.encode()),
        (headers.DUE, b"%d" % due_ms),
        (headers.TOPIC, shard.topic.encode()),
    ]
    if retry.exhausted:
        reason = f"given to the group {retry.attempt} times again"
        added += [(headers.ATTEMPT, b"%d" % retry.attempt), (headers.REASON, reason.encode())]
        return Append(names.dlq(retry.group), shard.partition, encode_body(key, value, kept + added))
    added.append((headers.ATTEMPT, b"%d" % (retry.attempt + 1)))
    return Append(names.retry(retry.group), shard.partition, encode_body(key, value, kept + added))
