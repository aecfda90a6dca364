"""What can go wrong between us and RocketMQ.

    RocketmqError
    ├── InvalidRequest          ours: what the caller asks for cannot be expressed in the protocol; nothing was sent
    └── PeerError               theirs
        ├── Unreachable         no answer: nothing was sent
        │   └── TooManyPending  nothing was sent: as much is under way as may be
        ├── AnswerLost          no answer: the request may have been carried out
        ├── Refused             a broker or a name server answered with an error; `code` and `remark` are theirs
        │   ├── TopicMissing    17
        │   ├── GroupMissing    26
        │   └── NotAllowed      16: the account or the broker's settings do not permit it
        └── WireError           bytes that cannot be read
            ├── Malformed       not what they should be
            │   └── UnreadableHeader   of a frame whose number could be found all the same
            ├── FrameTooLarge   a length beyond the limit, or below zero
            ├── CorruptBody     the checksum does not fit
            ├── BodyTooLarge    decompressed, it would pass the limit
            └── UnknownCompression   a number that stands for none

Arbitrary bytes raise a WireError and nothing else.
"""


class RocketmqError(Exception):
    """The base of all that this package raises on purpose."""


class InvalidRequest(RocketmqError):
    """What the caller asks for cannot be expressed in the protocol; nothing was sent."""


class PeerError(RocketmqError):
    """What a peer sent, or did not send."""


class Unreachable(PeerError):
    """No answer: nothing was sent."""


class TooManyPending(Unreachable):
    """As many requests, or as many bytes, are under way as may be; nothing was sent."""


class AnswerLost(PeerError):
    """No answer: the request may have been carried out."""


class Refused(PeerError):
    """An answer other than success. Compare `code` with `rocketmq.wire.codes.Answer`."""

    def __init__(self, code: int, remark: str, of: str) -> None:
        super().__init__(f"{of}: code {code}{': ' if remark else ''}{remark}")
        self.code = code
        self.remark = remark


class TopicMissing(Refused):
    """The broker, or every name server, knows no such topic."""


class GroupMissing(Refused):
    """The broker knows no such consumer group and does not create it by itself."""


class NotAllowed(Refused):
    """The account or the broker's settings do not permit it."""


class WireError(PeerError):
    """Bytes that cannot be read."""


class Malformed(WireError):
    """Bytes that are not what they should be."""


class UnreadableHeader(Malformed):
    """A header of which no more than this could be found: `encoding` is a `rocketmq.wire.command.Encoding`."""

    def __init__(self, detail: str, opaque: int, flag: int, encoding: int) -> None:
        super().__init__(detail)
        self.opaque = opaque
        self.flag = flag
        self.encoding = encoding


class FrameTooLarge(WireError):
    """A length beyond the limit, or below zero."""


class CorruptBody(WireError):
    """The checksum does not fit the body."""


class BodyTooLarge(WireError):
    """Decompressed, the body would pass the limit."""


class UnknownCompression(WireError):
    """A number that stands for no compression."""
