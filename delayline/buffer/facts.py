"""What a buffer record is to those who keep accounts: what its outcome row calls it, and which record it carries on.

Pure. The delay service names its outcome rows by `message_id` and `row_id_of`, the reconcile job reads buffer topics
by `fact_of`: both mean the same by construction.
"""

from typing import NamedTuple

from delayline.buffer.outcome import CANCELLED, RESCHEDULED
from delayline.buffer.record import Control, Decision, Message, Meta, Operation, RulesChange, decode_value, read
from delayline.records.content import digest_of_packed
from delayline.records.message import Key, Shard
from delayline.records.record import accepted_at_ms_of
from delayline.schedule.rules import Rules
from delayline.schedule.terms import Terms

MESSAGE, OPERATION, CONTROL, DECISION, RULES = "message", "operation", "control", "decision", "rules"
_KINDS = {Operation: OPERATION, Control: CONTROL, Decision: DECISION, RulesChange: RULES}

OWN_ID = "="
"""In front of an own id, where another reference would be a message id: no topic's name begins with it."""


class BufferFact(NamedTuple):
    """A record of a buffer topic. Times are epoch ms UTC.

    `id`, `due_ms` and `accepted_ms` are those of its outcome row; the first two are None where it is no message.
    `replaces` is the key of the record that a re-append carries on. `rules` are those of a rules record: in force for
    the offsets behind it. Of an operation, `asks` is what it does where it can (`cancelled` or `rescheduled`), `ref`
    whom it names (a message id, or an own id behind `=`), and `moves_to_ms` the time that it asks for. `expires_ms`:
    the last moment at which the message may be delivered; of a series, counted from the time of this record, which
    may be delivered for a later one. `digest`: that of what the client has sent (`delayline.records.content`), None
    where it is no message, or is one that cannot be delivered.
    """

    kind: str
    id: str | None
    due_ms: int | None
    accepted_ms: int
    replaces: Key | None = None
    rules: Rules | None = None
    asks: str | None = None
    ref: str | None = None
    expires_ms: int | None = None
    moves_to_ms: int | None = None
    digest: int | None = None


def fact_of(shard: Shard, offset: int, appended_at_ms: int, body: bytes, rules: Rules) -> BufferFact:
    """The record at `offset` with `rules` in force there. Hot: once per record that the job reads
    (bench/reconcile_kafka.py). Raises UnknownFormat."""
    meaning = read(body, appended_at_ms, rules)
    if type(meaning) is Message:
        return _message(shard, offset, appended_at_ms, meaning)
    if isinstance(meaning, Operation):
        return _operation(appended_at_ms, meaning)
    in_force = meaning.rules if isinstance(meaning, RulesChange) else None
    return BufferFact(_KINDS[type(meaning)], None, None, appended_at_ms, None, in_force)


def _operation(appended_at_ms: int, operation: Operation) -> BufferFact:
    asks = CANCELLED if operation.due_ms is None else RESCHEDULED
    ref = f"{OWN_ID}{operation.ref}" if isinstance(operation.ref, str) else str(operation.ref)
    return BufferFact(OPERATION, None, None, appended_at_ms, asks=asks, ref=ref, moves_to_ms=operation.due_ms)


def _message(shard: Shard, offset: int, appended_at_ms: int, message: Message) -> BufferFact:
    due_ms, value, _, replaces, terms = message
    if not value[0]:  # a plain one
        called, digest = f"{shard[0]}.{shard[1]}.{offset}.{due_ms}", digest_of_packed(value, 1)
        return BufferFact(MESSAGE, called, due_ms, appended_at_ms, digest=digest)
    meta, packed = decode_value(value)
    called = row_id_of(message_id(shard, Key(due_ms, offset), meta), terms)
    is_dead = meta is not None and meta.dead_code is not None  # its bytes are kept as they came
    if is_dead:
        return BufferFact(MESSAGE, called, due_ms, appended_at_ms, replaces)
    accepted_ms, digest = accepted_at_ms_of(packed), digest_of_packed(packed)
    expires_ms = None if terms is None else terms.expires_ms(due_ms)
    return BufferFact(MESSAGE, called, due_ms, accepted_ms, replaces, expires_ms=expires_ms, digest=digest)


def message_id(shard: Shard, key: Key, meta: Meta | None) -> str:
    """A message keeps the id of its first acceptance."""
    # rule origin: a message that goes on would get another id, and receivers could not recognise a repetition.
    return meta.origin if meta and meta.origin else f"{shard.topic}.{shard.partition}.{key.offset}.{key.due_ms}"


def row_id_of(message_id: str, terms: Terms | None) -> str:
    """What outcome rows and deliveries call it: of a series, the occurrence."""
    return message_id if terms is None or terms.series is None else f"{message_id}~{terms.series.occurrence}"
