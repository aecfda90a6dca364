"""What the broker answers on a client's connection: it passes as it comes, is rewritten, or goes to the splitter."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, PeerError
from kafkawire.protocol.frames import Whole
from kafkawire.protocol.message import decode, read_response, response_frame
from kafkawire.protocol.messages.cluster import SaslAuthenticateResponse
from kafkawire.protocol.messages.metadata import MetadataResponse
from kafkawire.protocol.messages.produce import ProduceResponse
from kafkawire.protocol.primitives import Buffer
from proxy.endpoint import Endpoint, as_it_came
from proxy.kafka.produce.produces import UpstreamProduce
from proxy.kafka.produce.rights import RightsAsked
from proxy.kafka.produce.split import ProduceSplitter
from proxy.kafka.response_order import FrameTagger, ResponseOrderer, Turn
from proxy.kafka.view.rewrite import response_is_read, rewrite_response

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub

RESPONSE_HEAD_BYTES = 4

Expected: TypeAlias = Turn | UpstreamProduce | RightsAsked
"""What the broker is to answer."""


class Answers:
    """Of one connection. A broker answers in the order of the requests, so the oldest one that is `expected` is
    meant. `logged_in` is called when a login has succeeded."""

    def __init__(
        self,
        hub: "Hub",
        client: Endpoint,
        line: ResponseOrderer,
        splitter: ProduceSplitter,
        logged_in: Callable[[Turn], None],
    ) -> None:
        self._hub = hub
        self._client = client
        self._line = line
        self._splitter = splitter
        self._logged_in = logged_in
        self._frames: FrameTagger[Expected] = FrameTagger(
            self._note_answer, RESPONSE_HEAD_BYTES, hub.settings.frame_bytes_max
        )
        self.expected: deque[Expected] = deque()
        self._passing: deque[Turn] = deque()

    def expect(self, one: Expected) -> None:
        """The request has been written to the broker, behind those before it."""
        self.expected.append(one)

    def take(self, data: bytes) -> None:
        """Bytes from the broker. Raises PeerError for an answer that does not fit what was asked."""
        for piece, notes in self._frames.feed(data):
            if isinstance(piece, Whole):
                self._answered(notes[0], piece.payload)
            else:
                self._pass(piece.data, notes)

    def _pass(self, data: memoryview, turns: "Sequence[Expected]") -> None:
        """A turn is over when all of its answer has passed: another one's must not get into the middle of it."""
        self._client.write([data])
        for turn in turns:
            assert isinstance(turn, Turn), "answers to shipments are read"
            self._passing.append(turn)
        unfinished = 1 if self._frames.passing else 0
        while len(self._passing) > unfinished:
            self._line.leave(self._passing.popleft())

    def _note_answer(self, _head: memoryview, _length: int) -> "tuple[Expected, bool]":
        if not self.expected:
            raise PeerError("an answer to nothing")
        expected = self.expected.popleft()
        if not isinstance(expected, Turn):
            return expected, True
        read = response_is_read(expected.api_key, expected.version) or expected.api_key == ApiKey.SASL_AUTHENTICATE
        return expected, read or not self._line.may_stream

    def _answered(self, expected: "Expected", payload: memoryview) -> None:
        if isinstance(expected, RightsAsked):
            _, body = read_response(ApiKey.METADATA, expected.header.version, payload)
            self._splitter.inspection.proved(expected, decode(MetadataResponse, expected.header.version, body))
        elif not isinstance(expected, Turn):
            _, body = read_response(ApiKey.PRODUCE, expected.header.version, payload)
            self._splitter.answered(expected, decode(ProduceResponse, expected.header.version, body))
        elif not response_is_read(expected.api_key, expected.version):
            if expected.api_key == ApiKey.SASL_AUTHENTICATE:
                _, body = read_response(expected.api_key, expected.version, payload)
                if is_login(decode(SaslAuthenticateResponse, expected.version, body)):
                    self._logged_in(expected)
            self._line.answer(expected, as_it_came(payload))
        else:
            _, body = read_response(expected.api_key, expected.version, payload)
            view = self._hub.view
            rewritten = rewrite_response(expected.api_key, expected.version, body, view, expected.asked)
            self._line.answer(expected, answer_to(expected, rewritten))


def is_login(answer: SaslAuthenticateResponse) -> bool:
    """Whether it is the end of a login that succeeded. The first answer of SCRAM has no error either, but a challenge
    (RFC 5802), nor has OAUTHBEARER's refusal (RFC 7628), which is JSON."""
    last = bytes(answer.auth_bytes)
    return answer.error_code == ErrorCode.NONE and (not last or last.startswith(b"v="))


def answer_to(turn: Turn, body: list[Buffer]) -> list[Buffer]:
    """The frame of an answer that the proxy gives, or has rewritten."""
    return response_frame(turn.api_key, turn.version, turn.correlation_id, body)
