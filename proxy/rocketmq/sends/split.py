"""A send made into one for its topic and messages for the topic's buffer. Pure.

What goes to the buffer is the record that the HTTP API would write (`mq.rocketmq.body`), in a batch: brokers look for
delays in single messages alone. Queue id, time of birth and group stay those of the client's request, or of the first
of several that go together.

A half message of a transaction goes by itself, as a half message for the buffer: the broker's commit stores it there,
and its rollback nowhere. Its record is the same but for the properties that brokers add
(`TransactionalMessageBridge.parseHalfMessageInner`), and for RocketMQ's own delays: a broker would delay the half
message by them, and then lose it (`HookUtils.handleScheduleMessage`).
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from delayline.records.message import Header
from delayline.schedule.verdict import Schedule
from mq.rocketmq.body import ACCEPTED_BYTES_MAX, KEYS, member_of
from mq.rocketmq.sent import sent_header
from proxy.rocketmq.sends import delays
from proxy.rocketmq.sends.request import TRANSACTION, RemotingRefusal, Send, is_half
from proxy.rocketmq.sends.screen import Delayed, SendScreen
from rocketmq.errors import InvalidRequest, Malformed
from rocketmq.wire.batch import BatchMember, encode_batch
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command
from rocketmq.wire.properties import encode_properties
from rocketmq.wire.stored import TransactionState

UNIQ_KEY = "UNIQ_KEY"
FLAGGED_HALF = f"sysFlag has the bit of a half message, and {TRANSACTION} is not true"
BATCH_BYTES_MAX = 4 << 20
"""Of a request to the buffer: a broker's default (`maxMessageSize`). Members grow by what a record adds."""
HEADER_BYTES = 8
"""Of a record, for each header beside its name and value, at most: lengths."""


class Buffered(NamedTuple):
    """What is known of the messages of a send that go to the buffer of its topic, when the broker answers. How many
    `messages` they are; `adds`: how many of them will wait, and are no operations. `unique_key` and `due_ms`, by this
    machine's clock, are those of a single message that may be recalled."""

    topic: str
    messages: int
    adds: int
    unique_key: str = ""
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SendParts:
    """What a send has become: `members` for the buffer, and `plain` is what is left for the topic, None where nothing
    is; or else `half`, a request. Of what is `buffered`, so many messages `repeats`,
    and these consumer `groups` get some again."""

    members: Sequence[BatchMember]
    plain: Command | None
    buffered: Buffered
    repeats: int
    groups: Set[str]
    half: Command | None = None

    @property
    def goes_alone(self) -> bool:
        """Whether it cannot be in one request with others."""
        return self.plain is not None or self.half is not None


class SendSplitter:
    """For any number of connections."""

    def __init__(
        self, screen: SendScreen, buffer_of: Callable[[str], str], record_bytes_max: int, next_key: Callable[[], str]
    ) -> None:
        """`buffer_of` gives the buffer's name in RocketMQ; `next_key` a unique key for a message that has none."""
        self._screen = screen
        self._buffer_of = buffer_of
        self._record_bytes_max = record_bytes_max
        self._next_key = next_key

    def split(self, send: Send, now_ms: int) -> SendParts | RemotingRefusal | None:
        """None: it goes to its topic as it came. Hot: once for each send that is looked at."""
        try:
            return self._batch(send, now_ms) if send.is_batch else self._single(send, now_ms)
        except (InvalidRequest, Malformed) as error:
            return RemotingRefusal(Answer.MESSAGE_ILLEGAL, str(error))

    def _single(self, send: Send, now_ms: int) -> SendParts | RemotingRefusal | None:
        """Raises InvalidRequest."""
        properties = send.properties()
        found = self._screen.look(send.topic, properties, now_ms)
        if not isinstance(found, Delayed):
            return found
        if not properties.get(UNIQ_KEY):
            found = found._replace(properties={**found.properties, UNIQ_KEY: self._next_key()})
        if is_half(properties):
            return self._half(send, found)
        if send.is_flagged_as_half:
            return RemotingRefusal(Answer.MESSAGE_ILLEGAL, FLAGGED_HALF)
        member = self._member(found, send.command.body, send.flag, send.sys_flag)
        due_ms = found.verdict.due_ms if isinstance(found.verdict, Schedule) else None
        return _parts(send, [(found, member)], None, found.properties[UNIQ_KEY], due_ms)

    def _half(self, send: Send, found: Delayed) -> SendParts:
        """Its key stays whatever it is: clients know their transactions by it. Raises InvalidRequest."""
        kept = {name: value for name, value in found.properties.items() if name not in _NOT_IN_HALVES}
        member = self._member(found._replace(properties=kept), send.command.body, send.flag, send.sys_flag)
        text = member.properties + encode_properties({UNIQ_KEY: found.properties[UNIQ_KEY], TRANSACTION: "true"})
        flags = {"f": str(int(TransactionState.PREPARED)), "h": "0"}
        fields = {**send.fields, **flags, "b": self._buffer_of(send.topic), "i": text}
        command = replace(send.command, code=int(Request.SEND_MESSAGE_V2), fields=fields)
        return replace(_parts(send, [(found, member)], None), members=(), half=command)

    def _batch(self, send: Send, now_ms: int) -> SendParts | RemotingRefusal | None:
        """Refused wholly where one member is. Raises InvalidRequest, Malformed."""
        delayed: list[tuple[Delayed, BatchMember]] = []
        plain: list[BatchMember] = []
        for number, one in enumerate(send.members()):
            found = self._screen.look(send.topic, one.properties_map(), now_ms)
            if isinstance(found, RemotingRefusal):
                return found._replace(remark=f"message {number} of the batch: {found.remark}")
            if found is None:
                plain.append(one)
            else:
                delayed.append((found, self._member(found, one.body, one.flag, send.sys_flag)))
        return _parts(send, delayed, _of_topic(send, plain)) if delayed else None

    def _member(self, found: Delayed, body: bytes | memoryview, flag: int, sys_flag: int) -> BatchMember:
        """Raises InvalidRequest."""
        sent = sent_header(flag, sys_flag)
        headers: list[Header] = [] if sent is None else [sent]
        headers += [(name.encode(), value.encode()) for name, value in found.properties.items()]
        headers += found.directives
        key = next((value for name, value in headers if name == KEYS), None)
        if key is not None:
            headers.remove((KEYS, key))
        size = len(body) + len(key or b"") + sum(map(_header_bytes, headers))
        if size > self._record_bytes_max:
            limit = f"{self._record_bytes_max} bytes at most, with its properties"
            raise InvalidRequest(f"a delayed message has {limit}; this one has {size}")
        return member_of(key, bytes(body), headers, None, ACCEPTED_BYTES_MAX)

    def request(self, send: Send, members: Sequence[BatchMember]) -> Command:
        """To the buffer, in the place of `send`. Raises InvalidRequest."""
        body = encode_batch(members)
        if len(body) > BATCH_BYTES_MAX:
            raise InvalidRequest(f"delayed messages of {len(body)} bytes; a broker takes {BATCH_BYTES_MAX} at once")
        fields = {**send.fields, "b": self._buffer_of(send.topic), "f": "0", "h": "0", "i": "", "m": "true"}
        return replace(send.command, code=int(Request.SEND_BATCH_MESSAGE), fields=fields, body=body)


_NOT_IN_HALVES = delays.NAMES | {TRANSACTION, UNIQ_KEY}


def _parts(
    send: Send,
    delayed: Sequence[tuple[Delayed, BatchMember]],
    plain: Command | None,
    unique_key: str = "",
    due_ms: int | None = None,
) -> SendParts:
    schedules = [found.verdict for found, _ in delayed if isinstance(found.verdict, Schedule)]
    buffered = Buffered(send.topic, len(delayed), len(schedules), unique_key, due_ms)
    repeats = sum(schedule.repeats for schedule in schedules)
    groups = {schedule.retries.group for schedule in schedules if schedule.retries is not None}
    return SendParts([member for _, member in delayed], plain, buffered, repeats, groups)


def _header_bytes(header: Header) -> int:
    name, value = header
    return len(name) + len(value or b"") + HEADER_BYTES


def _of_topic(send: Send, members: Sequence[BatchMember]) -> Command | None:
    """What of a batch goes to its topic."""
    return replace(send.command, body=encode_batch(members)) if members else None
