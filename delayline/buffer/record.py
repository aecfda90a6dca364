"""The kinds of records in a buffer topic, and how to distinguish them.

    message    as a client sent it: any record without one of the headers below
    operation  as a client sent it, with `delay-op`: cancels or reschedules the message that `delay-ref` names
    restored   a message that was purged or cancelled and comes back as a new one: `delayline-restores` (its id then),
               `delayline-due`, `delayline-undo`
    re-append  carries a message on under a new offset: `delayline-origin` (message id), `delayline-replaces`
               (`<due_ms>.<offset>` of the record that it replaces), `delayline-due`, `delayline-accepted`
               (absolute, from the first acceptance), `delayline-version`
    control    `delayline-control`: pauses, resumes or purges the whole shard, or records what an operator accepted
    decision   `delayline-decision`: names records that became terminal other than by the cursor
    rules      `delayline-rules`: the rules in force for the offsets behind it

`read` gives a record the meaning that it has for every reader, now and on replay: ingest, reconcile and repair
all call it. Page: docs/formats/buffer.md.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from delayline.buffer.decisions import read_keys
from delayline.errors import Bug, DelaylineError, Foreign, MalformedMessageId, MalformedRecord, UnknownFormat
from delayline.records.headers import (
    ACCEPTED,
    ATTEMPT,
    CONTROL,
    DECISION,
    DUE,
    ECHOED,
    FORWARDED,
    IDEMPOTENCY,
    IF_MATCH,
    ORIGIN,
    REPLACES,
    RESERVED,
    RESTORES,
    RULES,
    SET_ASIDE,
    TERMS,
    UNDO,
    VERSION,
)
from delayline.records.message import Header, Key, MessageId
from delayline.records.record import Split, decode_body, decode_packed, encode_body, pack, split_directives
from delayline.records.set_aside import MALFORMED_BATCH, SetAside
from delayline.schedule.directives import KEPT_MAX, directive_names
from delayline.schedule.rules import Rules
from delayline.schedule.terms import Idempotency, Terms
from delayline.schedule.terms_check import check_terms
from delayline.schedule.verdict import Invalid, Op, Schedule, Verdict, read_directives
from delayline.times import MOMENT_MAX_MS


class Meta(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What the index keeps about a record beside its packed bytes; None for a plain message.

    `origin` and `version` belong to a re-append; `dead_code` and `dead_reason` to a record that will go to the
    dead-letter topic instead of its target, with `accepted_at_ms` because its bytes are kept as they came; `terms`
    to a message that asks for more than a time.
    """

    origin: str | None = None
    version: int = 0
    dead_code: str | None = None
    dead_reason: str | None = None
    accepted_at_ms: int = 0
    terms: Terms | None = None


class Message(NamedTuple):
    """A message to keep until `due_ms`. `value` is the index value, `replaces` the key that a re-append ends."""

    due_ms: int
    value: bytes
    origin: str | None = None
    replaces: Key | None = None
    terms: Terms | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether it takes its place only by a decision: it wants a name for itself, or a time that was read from a
        calendar is to be fixed."""
        return self.replaces is None and _has_condition(self.terms)


def _has_condition(terms: Terms | None) -> bool:
    if terms is None:
        return False
    return bool(terms.names) or (terms.series is not None and terms.series.cron is not None)


class Decision(NamedTuple):
    """Keys of records that it ends."""

    ended: tuple[Key, ...]


class RulesChange(NamedTuple):
    """Rules in force behind this record."""

    rules: Rules


class Operation(NamedTuple):
    """Something to do with a pending message, called by its message id or its own id: cancel it, or deliver it at
    `due_ms` instead. Only where the message has this `version`, if one is given. `forwarded`: by another shard, to
    which it was sent. What a cancel ends is kept for the `undo` of that id, if one is given."""

    ref: MessageId | str
    due_ms: int | None
    version: int | None = None
    forwarded: bool = False
    undo: str | None = None


class Control(NamedTuple):
    """Something to do with the whole shard: `pause`, `resume` or `purge`; `skip`: what an operator has done. What a
    purge ends is kept for the `undo` of that id, if one is given."""

    kind: str
    undo: str | None = None


BufferRecord = Message | Operation | Control | Decision | RulesChange
SKIP = "skip"
READING_FAILS = "this program fails to read it"
CONTROLS = ("pause", "resume", "purge", SKIP)

_META = msgspec.msgpack.Decoder(Meta)
_NO_META = b"\x00"
_SERIES = b"\xa6series"
"""A field's name in msgpack: no index value of a repeat is without it."""

OURS = RESERVED | ECHOED
"""Names of headers that no client gives a meaning to."""

_SILENT = ECHOED - {ATTEMPT}

_VERSION = re.compile(rb"[1-9][0-9]{0,8}")
_OFFSET_MAX = (1 << 63) - 1
_UNDO = re.compile(rb"[\x21-\x7e]{1,300}")
_DIGITS = re.compile(r"[0-9]{1,19}")


def encode_value(meta: Meta | None, packed: bytes) -> bytes:
    """Index value: `u8 m | m bytes of metadata | packed`; m = 0 means plain, m = 255 that a u16 length follows."""
    if meta is None:
        return _NO_META + packed
    data = msgspec.msgpack.encode(meta)
    if len(data) < 255:
        return bytes((len(data),)) + data + packed
    return b"\xff" + len(data).to_bytes(2, "big") + data + packed


def decode_value(value: bytes) -> tuple[Meta | None, bytes]:
    """The two halves of an index value."""
    length = value[0]
    if length == 0:
        return None, value[1:]
    start = 1
    if length == 255:
        start, length = 3, int.from_bytes(value[1:3], "big")
    return _META.decode(value[start : start + length]), value[start + length :]


def is_conditional(value: bytes) -> bool:
    """The same (`Message.is_conditional`) of an index value."""
    meta, _ = decode_value(value)
    return meta is not None and meta.origin is None and _has_condition(meta.terms)


def is_repeat(value: bytes) -> bool:
    """Whether the message of an index value repeats. Hot: asked of every one that is not plain."""
    if value[:1] <= _NO_META or _SERIES not in value:
        return False
    meta = decode_value(value)[0]
    return meta is not None and meta.terms is not None and meta.terms.series is not None


def version_of(value: bytes) -> int:
    """How often the message of an index value has been carried on."""
    meta = decode_value(value)[0]
    return meta.version if meta is not None else 0


@lru_cache
def names_of(aliases: tuple[str, ...]) -> frozenset[bytes]:
    """The headers that `read` looks at; everything else is the message's."""
    return directive_names(aliases) | ECHOED | RESERVED


def read(body: bytes, accepted_at_ms: int, rules: Rules) -> BufferRecord:
    """The meaning of a buffer record. Hot: once per record read. Never raises for what a client could have written:
    a record that cannot be read, or whose directive is invalid, is a message that is due at once and goes to the
    dead-letter topic.

    So is a record that looks like one of ours and that no version writes: nothing depends on it.

    Raises UnknownFormat for records of ours in a version this program does not know: the shard must stop, for what
    stands behind may depend on them. And for a record on which this program fails: one shard stops, where an operator
    can skip it, and not the process, at every start again.
    """
    try:
        return _meaning(body, accepted_at_ms, rules)
    except (Bug, DelaylineError):
        raise
    except Exception as error:
        raise UnknownFormat(f"{READING_FAILS}: {error!r}"[:300]) from error


def _meaning(body: bytes, accepted_at_ms: int, rules: Rules) -> BufferRecord:
    try:
        split = split_directives(body, names_of(rules.aliases))
    except MalformedRecord as error:
        return _dead("malformed-record", str(error), body, accepted_at_ms)
    directives = split.directives
    for name, _ in directives:
        if name in OURS:
            if any(name in RESERVED for name, _ in directives):
                return _read_ours(body, accepted_at_ms, rules)
            directives = [header for header in directives if header[0] not in _SILENT]
            break
    verdict = read_directives(directives, accepted_at_ms, rules)
    if type(verdict) is Schedule and verdict.terms is None:
        return Message(verdict.due_ms, _NO_META + pack(split, accepted_at_ms))
    return _read_unusual(verdict, split, body, accepted_at_ms)


def _read_unusual(verdict: Verdict, split: Split, body: bytes, accepted_at_ms: int) -> Message | Operation:
    """Buffered all the same: no delay means at once, a refused directive the dead-letter topic."""
    match verdict:
        case Invalid(reason, directive, detail):
            return _dead(reason, f"{directive}: {detail}", body, accepted_at_ms)
        case Op(ref, due_ms):
            return Operation(ref, due_ms)
        case Schedule(due_ms, terms):
            value = encode_value(Meta(terms=terms), pack(split, accepted_at_ms))
            return Message(due_ms, value, terms=terms)
        case _:
            return Message(accepted_at_ms, _NO_META + pack(split, accepted_at_ms))


def _dead(code: str, reason: str, body: bytes, accepted_at_ms: int) -> Message:
    meta = Meta(dead_code=code, dead_reason=reason[:200], accepted_at_ms=accepted_at_ms)
    return Message(accepted_at_ms, encode_value(meta, body))


def _read_ours(body: bytes, accepted_at_ms: int, rules: Rules) -> BufferRecord:
    try:
        return _follow(body, accepted_at_ms, rules)
    except Foreign as error:
        return _dead("malformed-record", str(error), body, accepted_at_ms)


def _follow(body: bytes, accepted_at_ms: int, rules: Rules) -> BufferRecord:
    """Raises Foreign, UnknownFormat."""
    if isinstance(body, SetAside):
        return _dead(MALFORMED_BATCH, body.why, body, accepted_at_ms)
    split = split_directives(body, OURS)
    ours = dict(split.directives)
    if DECISION in ours:
        return Decision(read_keys(body, ours[DECISION]))
    if RULES in ours:
        return RulesChange(Rules.decode(decode_body(body).value or b""))
    if CONTROL in ours:
        return _read_control(ours[CONTROL], ours.get(UNDO))
    if ours.keys() <= _OF_FRONTENDS:
        return _read_with(ours, body, accepted_at_ms, rules)
    try:
        return _read_restored(split, ours, accepted_at_ms) if RESTORES in ours else _read_reappend(split, ours)
    except (KeyError, ValueError, MalformedMessageId) as error:
        return _dead("malformed-record", f"re-append: {error!r}", body, accepted_at_ms)


def _read_restored(split: Split, ours: dict[bytes, bytes | None], accepted_at_ms: int) -> Message:
    """A new message, accepted now. Its time may have passed since: then it is due now and expires when it would
    have; but for one that repeats, whose terms decide about times that were missed."""
    due_ms = _moment((ours[DUE] or b"").decode())
    MessageId.parse((ours[RESTORES] or b"").decode())
    terms = None if (written := ours.get(TERMS)) is None else check_terms(Terms.decode(written))
    if due_ms < accepted_at_ms and (terms is None or terms.series is None):
        # rule restored-ttl: a time to live would begin anew: delivered behind its deadline.
        terms = None if terms is None else replace(terms, expire_at_ms=terms.expires_ms(due_ms), ttl_ms=None)
        # rule restored-due: a message that was due long ago would expire for being late: lost.
        due_ms = accepted_at_ms
    value = encode_value(None if terms is None else Meta(terms=terms), pack(split, accepted_at_ms))
    return Message(due_ms, value, terms=terms)


def _read_reappend(split: Split, ours: dict[bytes, bytes | None]) -> Message:
    headers = {name: value.decode() for name, value in ours.items() if value is not None}
    origin, due_ms = MessageId.parse(headers[ORIGIN]), _moment(headers[DUE])
    if origin.due_ms > MOMENT_MAX_MS or origin.offset > _OFFSET_MAX:
        raise ValueError("the id of no message")
    replaced_due, replaced_offset = headers[REPLACES].split(".")
    replaces = Key(_moment(replaced_due), _natural(replaced_offset, _OFFSET_MAX))
    terms = None if (written := ours.get(TERMS)) is None else check_terms(Terms.decode(written))
    meta = Meta(origin=str(origin), version=_natural(headers[VERSION], KEPT_MAX), terms=terms)
    value = encode_value(meta, pack(split, _moment(headers[ACCEPTED])))
    return Message(due_ms, value, meta.origin, replaces, terms)


_OF_FRONTENDS = frozenset({IDEMPOTENCY, IF_MATCH, FORWARDED, SET_ASIDE, UNDO}) | ECHOED
"""What the HTTP API writes beside a client's directives, or another shard that passes an operation on. And a mark
that means nothing in a log: `delayline.records.set_aside`."""


def _read_with(ours: dict[bytes, bytes | None], body: bytes, accepted_at_ms: int, rules: Rules) -> BufferRecord:
    """A client's record with a condition or a key that the API has added."""
    split = split_directives(body, names_of(rules.aliases))
    directives = [header for header in split.directives if header[0] not in RESERVED]
    verdict = read_directives(directives, accepted_at_ms, rules)
    try:
        if isinstance(verdict, Op):
            version = ours.get(IF_MATCH)
            expected = None if version is None else _natural(version.decode(), KEPT_MAX)
            return Operation(verdict.ref, verdict.due_ms, expected, FORWARDED in ours, _undo(ours.get(UNDO)))
        if isinstance(verdict, Schedule) and (written := ours.get(IDEMPOTENCY)) is not None:
            digest, key = written.decode().split(" ", 1)
            terms = replace(verdict.terms or Terms(), idempotency=Idempotency(key, digest))
            verdict = Schedule(verdict.due_ms, check_terms(terms))
    except ValueError as error:
        return _dead("malformed-record", f"a header of the HTTP API: {error}", body, accepted_at_ms)
    return _read_unusual(verdict, split, body, accepted_at_ms)


def _read_control(kind: bytes | None, undo: bytes | None) -> Control:
    """Raises Foreign."""
    text = (kind or b"").decode("utf-8", "replace")
    if text not in CONTROLS:
        raise Foreign(f"a control record with the content {text[:100]!r}")
    try:
        return Control(text, _undo(undo))
    except ValueError as error:
        raise Foreign(f"a control record with {error}") from error


def encode_control(kind: str, detail: bytes | None = None, undo: str | None = None) -> bytes:
    """The body of a control record; `detail` is for people."""
    kept: list[Header] = [] if undo is None else [(UNDO, undo.encode())]
    return encode_body(None, detail, [(CONTROL, kind.encode()), *kept])


def _undo(written: bytes | None) -> str | None:
    """Raises ValueError."""
    if written is None:
        return None
    if not _UNDO.fullmatch(written):
        raise ValueError(f"{written[:40]!r} is the id of no undo")
    return written.decode()


def _moment(text: str) -> int:
    """Epoch ms; no later than can be written. Raises ValueError."""
    return _natural(text, MOMENT_MAX_MS)


def _natural(text: str, most: int) -> int:
    """A number in decimal digits. Raises ValueError."""
    if not _DIGITS.fullmatch(text) or int(text) > most:
        raise ValueError(f"{text[:40]!r} is no number up to {most}")
    return int(text)


def encode_rules(rules: Rules) -> bytes:
    """The body of a rules record."""
    return encode_body(None, rules.encoded, [(RULES, b"%d" % rules.number)])


def encode_reappend(value: bytes, replaces: Key, origin: str, due_ms: int, terms: Terms | None = None) -> bytes:
    """The body of the record that carries on the message with index value `value` under a new offset.

    Its times are absolute, so that its append time means nothing; it names its origin, so that the message keeps
    its id; and it names what it replaces, so that reading it ends the old record. `terms` stand instead of those
    that it has had.
    """
    meta, packed = decode_value(value)
    # rule reappend-terms: the message would go on without deadline, names and series.
    terms = terms or (meta.terms if meta else None)
    record = decode_packed(packed)
    ours: list[Header] = [
        (ORIGIN, origin.encode()),
        # rule reappend-replaces: the old record would not end: delivered twice.
        (REPLACES, b"%d.%d" % replaces),
        # rule reappend-due: the message would move in time.
        (DUE, b"%d" % due_ms),
        # rule reappend-version: an operation would overwrite a change that its sender has not seen.
        (VERSION, b"%d" % ((meta.version if meta else 0) + 1)),
    ]
    if terms is not None:
        ours.append((TERMS, terms.encoded))
    return encode_body(record.key, record.value, record.headers + ours)
