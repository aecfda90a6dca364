"""A send, in whichever of RocketMQ's forms it comes (`SendMessageProcessor.parseRequestHeader`)."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from rocketmq.wire.batch import BatchMember, decode_batch
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command, Peeked, decode_frame
from rocketmq.wire.headers.send import LETTERS
from rocketmq.wire.properties import decode_properties
from rocketmq.wire.stored import SysFlag

SENDS = frozenset({int(Request.SEND_MESSAGE), int(Request.SEND_MESSAGE_V2), int(Request.SEND_BATCH_MESSAGE)})

_NUMBERS = "efgh"
"""Queue id, sysFlag, time of birth, flag: no send is without them."""
_INTEGERS = re.compile(r"(-?[0-9]{1,18} ){4}", re.ASCII)

_INT32 = range(-(1 << 31), 1 << 31)

_PREPARED = int(SysFlag.PREPARED)
"""A plain number: `&` of an enum's member makes another member, which takes a microsecond."""

TRANSACTION = "TRAN_MSG"
"""Marks a half message: `true` (`MessageConst.PROPERTY_TRANSACTION_PREPARED`)."""


def is_half(properties: Mapping[str, str]) -> bool:
    """Whether a single message with these is the first half of a transaction (`SendMessageProcessor.sendMessage`)."""
    return properties.get(TRANSACTION, "").lower() == "true"


class SendHead(NamedTuple):
    """What decides whether a send has to be looked at, before its body is there."""

    topic: str
    properties: str
    is_batch: bool


def head_of(peeked: Peeked, head: memoryview) -> SendHead | None:
    """Of a send; None where it names no topic: it is for the broker to refuse. Hot: once for each. Raises
    Malformed."""
    found = peeked.fields
    if found is None:
        fields = _letters(decode_frame(head))
        topic, properties, batch = fields.get("b"), fields.get("i"), fields.get("m")
    elif peeked.code == Request.SEND_MESSAGE:
        topic, properties, batch = found.topic, found.properties, found.batch  # type: ignore[assignment]
    else:
        topic, properties, batch = found.b, found.i, found.m  # type: ignore[assignment]
    if not isinstance(topic, str):
        return None
    return SendHead(topic, properties if isinstance(properties, str) else "", str(batch).lower() == "true")


def _letters(command: Command) -> Mapping[str, str]:
    if command.code != Request.SEND_MESSAGE:
        return command.fields
    return {LETTERS.get(name, name): value for name, value in command.fields.items()}


class Send(NamedTuple):
    """Whole. `fields` are in letters, whatever its form."""

    command: Command
    fields: Mapping[str, str]
    flag: int
    sys_flag: int

    @property
    def topic(self) -> str:
        return self.fields["b"]

    @property
    def queue_id(self) -> str:
        return self.fields["e"]

    @property
    def is_batch(self) -> bool:
        """Its code means nothing for that, nor does `1`: brokers store such a batch as one message."""
        return self.fields.get("m", "").lower() == "true"

    @property
    def is_flagged_as_half(self) -> bool:
        """Brokers of today look at the property alone (`is_half`), and store what has but the flag where no consumer
        finds it."""
        return bool(self.sys_flag & _PREPARED)

    def properties(self) -> dict[str, str]:
        """Those of the header: of the one message, or of all of a batch."""
        return decode_properties(self.fields.get("i", ""))

    def members(self) -> list[BatchMember]:
        """Of a batch. Raises Malformed."""
        return decode_batch(self.command.body)


def read_send(command: Command) -> Send | None:
    """None where a broker could not read it either: it is for the broker to refuse. Hot: once for each that is looked
    at."""
    fields = _letters(command)
    numbers = "".join([fields.get(letter, "") + " " for letter in _NUMBERS])
    if "a" not in fields or "b" not in fields or not _INTEGERS.fullmatch(numbers):
        return None
    flag, sys_flag = int(fields["h"]), int(fields["f"])
    return Send(command, fields, flag, sys_flag) if flag in _INT32 and sys_flag in _INT32 else None


class RemotingRefusal(NamedTuple):
    """Why a request is not carried out: an answer's code (`rocketmq.wire.codes.Answer`), and a sentence for the
    people behind the client."""

    code: int
    remark: str
