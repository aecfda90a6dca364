"""Whether a client may write to a topic, where the broker itself does not judge it by the client's own records.

    compressed records    asked before anything of them is unpacked; what is not compressed costs no more than what
                          was sent. The broker judges the batches themselves all the same
    records to be retried asked about the topic of the group, into which a worker writes them with rights of its own

Metadata reports which operations on a topic the asker is authorised to (KIP-430). It is asked on the client's own
connection, so that the broker answers for the client's own principal; the proxy knows no principals. One round trip
for a connection and topic in `PROVEN_S`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from delayline.clock import Clock
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopicName

PROVEN_S = 30.0
"""A right that is taken away meanwhile lets compressed records be unpacked so much longer, and a group be sent what
is to be retried. Brokers themselves take some time to hear of what was taken away."""

TOPICS_MAX = 1000
"""Remembered for a connection."""

VERSION = 12
"""Of Metadata: every broker that the proxy works with has it."""

WRITE = 1 << 4
"""AclOperation.WRITE in a field of operations."""

NOT_REPORTED = -(1 << 31)
_CODES = {code.value: code for code in ErrorCode}


class Denied(NamedTuple):
    """Why a topic does not take the client's records. `is_missing`: it would, if it were there."""

    code: ErrorCode
    is_missing: bool = False


@dataclass(slots=True, eq=False)
class RightsAsked:
    """A Metadata of ours on the client's connection; `then` gets the topics that do not take its records."""

    header: RequestHeader
    request: MetadataRequest
    then: Callable[[Mapping[str, Denied]], None]


class Rights:
    """Of one connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.proven_s: dict[str, float] = {}

    def ask(
        self, topics: Iterable[str], client: RequestHeader, then: Callable[[Mapping[str, Denied]], None]
    ) -> RightsAsked | None:
        """What to ask about these topics; None where all are known to take the client's records. `client` is the
        header of its request."""
        since_s = self._clock.monotonic_s() - PROVEN_S
        unproven = [topic for topic in dict.fromkeys(topics) if self.proven_s.get(topic, since_s) <= since_s]
        if not unproven:
            return None
        request = MetadataRequest(
            topics=[MetadataTopicName(name=topic) for topic in unproven],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        header = RequestHeader(ApiKey.METADATA, VERSION, client.correlation_id, client.client_id)
        return RightsAsked(header, request, then)

    def answered(self, response: MetadataResponse) -> Mapping[str, Denied]:
        """The topics that do not take the client's records. They are asked about again."""
        denied: dict[str, Denied] = {}
        now_s = self._clock.monotonic_s()
        if len(self.proven_s) >= TOPICS_MAX:
            self.proven_s.clear()
        for topic in response.topics:
            name, operations = topic.name or "", topic.topic_authorized_operations
            if topic.error_code:
                code = _CODES.get(topic.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
                may_write = operations != NOT_REPORTED and bool(operations & WRITE)
                denied[name] = Denied(code, may_write and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif operations != NOT_REPORTED and not operations & WRITE:
                denied[name] = Denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            else:
                self.proven_s[name] = now_s
        return denied
