"""A send, in whichever of RocketMQ's forms it comes (`SendMessageProcessor.parseRequestHeader`)."""

from dataclasses import fields
from typing import NamedTuple

from rocketmq.errors import Malformed
from rocketmq.wire.batch import BatchMember, decode_batch
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.send import SendMessage, SendMessageV2
from rocketmq.wire.properties import decode_properties
from rocketmq.wire.stored import SysFlag

SENDS = frozenset({int(Request.SEND_MESSAGE), int(Request.SEND_MESSAGE_V2), int(Request.SEND_BATCH_MESSAGE)})

TRANSACTION = "TRAN_MSG"
"""Marks a half message: `true` (`MessageConst.PROPERTY_TRANSACTION_PREPARED`)."""


class Send(NamedTuple):
    """Whatever its form, its fields in letters."""

    command: Command
    header: SendMessageV2

    @property
    def topic(self) -> str:
        return self.header.topic

    @property
    def is_batch(self) -> bool:
        """Its code means nothing for that, nor does `1`: brokers store such a batch as one message."""
        return self.header.batch is True

    @property
    def is_half(self) -> bool:
        """Whether it is the first half of a transaction. To be asked of a single message."""
        prepared = self.properties().get(TRANSACTION, "").lower() == "true"
        return prepared or bool(self.header.sys_flag & SysFlag.PREPARED)

    def properties(self) -> dict[str, str]:
        """Those of the header: of the one message, or of all of a batch."""
        return decode_properties(self.header.properties or "")

    def members(self) -> list[BatchMember]:
        """Of a batch, whose body is all there. Raises Malformed."""
        return decode_batch(self.command.body)


def read_send(command: Command) -> Send | None:
    """None where a broker could not read it either: it is for the broker to refuse."""
    try:
        return Send(command, _header(command))
    except Malformed:
        return None


def _header(command: Command) -> SendMessageV2:
    """Raises Malformed."""
    if command.code != Request.SEND_MESSAGE:
        return SendMessageV2.from_fields(command.fields)
    found = SendMessage.from_fields(command.fields)
    return SendMessageV2(*(getattr(found, one.name) for one in fields(SendMessageV2)))


class RemotingRefusal(NamedTuple):
    """Why a request is not carried out: an answer's code (`rocketmq.wire.codes.Answer`), and a sentence for the
    people behind the client."""

    code: int
    remark: str
