"""One client's connection, and the one to the broker that stands behind it.

Bytes that need not be read pass as they come, in both directions. Of what is looked at:

    ApiVersions, Metadata, ...   the answer is rewritten            proxy.kafka.view.rewrite
    whatever names hidden topics is answered here                   proxy.kafka.view.refuse
    Produce                      goes through the split             proxy.kafka.produce.split

Answers leave in the order of the requests (`response_order.ResponseOrderer`). While a Produce of the split is under
way, only further Produces are taken up; everything else waits behind it, as it would in a broker, which carries out
one request of a connection after the other. So nothing large is ever kept until its turn.

Where the client ends, what was read from it first goes where it belongs: a producer that takes no answers (acks=0)
sends, closes, and counts on it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from delayline.access.ledger import Account
from kafkawire.protocol.apis import ApiKey, is_let_through
from kafkawire.protocol.errors import ErrorCode, FrameTooLarge, PeerError, UnsupportedVersion
from kafkawire.protocol.frames import Piece, Whole
from kafkawire.protocol.message import PEEK_BYTES, RequestHeader, decode, encode, peek, read_request, request_frame
from kafkawire.protocol.messages.cluster import (
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.protocol.messages.produce import ProduceRequest
from kafkawire.protocol.primitives import Buffer
from proxy.endpoint import as_it_came
from proxy.kafka.frontend.answers import Answers, answer_to
from proxy.kafka.frontend.login import ANONYMOUS, Login
from proxy.kafka.produce.rights import RightsAsked
from proxy.kafka.produce.split import ProduceSplitter
from proxy.kafka.response_order import FrameTagger, ResponseOrderer, Turn
from proxy.kafka.view.refuse import refuse, refuse_decoded, request_is_read
from proxy.kafka.view.rewrite import conceal, unsupported_version
from proxy.relay import SERVER_NOT_READING, Address, Relay

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub
    from proxy.kafka.produce.produces import UpstreamProduce

OVER_QUOTA = "over its quota"
_LOGIN = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

TURNS_MAX = 1000
"""Requests of a connection that wait for answers, before no more are read. Clients send at most a handful."""

HELD_BYTES_MAX = 32 << 20
"""Of Produces under way on a connection, before no more are read. A single one may be larger (the frame limit)."""


class KafkaRelay(Relay["Hub"]):
    """`node_id` None: to any server."""

    section = "proxy.kafka"
    peer_error = PeerError
    too_large = FrameTooLarge

    def __init__(
        self,
        hub: "Hub",
        node_id: int | None,
        began: "Callable[[KafkaRelay], None]",
        ended: "Callable[[KafkaRelay], None]",
    ) -> None:
        super().__init__(hub, "any node" if node_id is None else f"node {node_id}", began, ended)
        self._node_id = node_id
        first_bytes_max = frame_bytes_max = hub.settings.frame_bytes_max
        # The brokers demand of clients what they demand of the proxy: SASL, or nothing.
        self._logged_in = hub.settings.access.own.credentials is None
        if not self._logged_in:
            first_bytes_max = min(frame_bytes_max, hub.settings.kafka_limits.login_frame_bytes_max)
            self.frame_limit = "login_frame_bytes_max"
        self._requests: FrameTagger[Turn] = FrameTagger(self._note_request, PEEK_BYTES, first_bytes_max)
        self._flushing: list[Turn] = []  # relayed to a broker that does not read right now
        self._inbox: deque[tuple[Piece, Sequence[Turn]]] = deque()  # of what was read in one go
        self._line = ResponseOrderer(self.client.write)
        self._login = None if hub.ledger is None else Login()
        self._muted_until_s = float("-inf")
        self._unmuting: asyncio.TimerHandle | None = None
        self._split = ProduceSplitter(hub, self)
        self._answers = Answers(hub, self.client, self._line, self._split, self._log_in)

    # --- what every relay is asked

    async def _addresses(self) -> Sequence[Address]:
        """A client may reach a node's port before the proxy knows anything of the node."""
        hub, node_id = self._hub, self._node_id
        if node_id is None:
            return hub.backend.servers()
        address = hub.topology.address(node_id)
        if address is None:
            await hub.backend.learn_nodes()
            address = hub.topology.address(node_id)
        return [] if address is None else [address]

    @property
    def _begun_frame(self) -> int | None:
        return self._requests.unfinished

    @property
    def _is_busy(self) -> bool:
        return bool(self._line) or self._split.busy

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left to be carried out, nor to be sent to a client that may still listen."""
        if self._inbox or self._split.busy:
            return False
        if self._is_client_gone:  # a Fetch does nothing but answer, perhaps in a minute
            return all(isinstance(one, Turn) and one.api_key == ApiKey.FETCH for one in self._answers.expected)
        return not self._line

    @property
    def _login_timeout_s(self) -> float | None:
        return None if self._logged_in else self._hub.settings.kafka_limits.login_timeout_s

    def stop(self) -> None:
        """End as soon as no request waits for an answer."""
        self._is_ending = True
        self.client.hold("stopping")
        self._end_if_idle()

    def end(self, reason: str) -> None:
        """Carry out what was taken up, and nothing that was read behind it."""
        self._inbox.clear()
        self._read_no_more(reason)

    def _gave_up_draining(self) -> None:
        self._hub.metrics.undrained.inc()

    def _let_go(self) -> None:
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._split.close()
        self._inbox.clear()

    def _server_full(self, is_full: bool) -> None:
        super()._server_full(is_full)
        if not is_full:
            flushed, self._flushing = self._flushing, []
            for turn in flushed:
                self.release(turn)

    # --- requests

    def _take_requests(self, data: bytes) -> None:
        try:
            self._inbox.extend(self._requests.feed(data))
        finally:
            self.take_up()

    def _note_request(self, head: memoryview, length: int) -> tuple[Turn, bool]:
        api_key, version, correlation_id = peek(head)
        turn = Turn(api_key, version, correlation_id)
        if is_let_through(api_key, version):
            whole = request_is_read(api_key) or (self._login is not None and api_key in _LOGIN)
            if whole:
                self._held.pay(turn, length)
            return turn, whole
        if api_key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            raise UnsupportedVersion(f"API {api_key} version {version} is not let through")
        return turn, True

    def take_up(self) -> None:
        """Whatever held up the next request may be over."""
        try:
            self._take_up()
        except PeerError as error:
            self.end(str(error))

    def _take_up(self) -> None:
        while self._inbox and self._may_take(*self._inbox[0]):
            piece, turns = self._inbox.popleft()
            if isinstance(piece, Whole):
                self._request(turns[0], piece.payload)
            else:
                for turn in turns:
                    self._relay(turn)
                self._server.write([piece.data])
        waiting = bool(self._inbox) or len(self._line) > TURNS_MAX or self._split.bytes_held > HELD_BYTES_MAX
        self.under_way(waiting)
        self._end_if_idle()

    def _may_take(self, _piece: Piece, turns: Sequence[Turn]) -> bool:
        if not self._split.busy:
            return True
        return not turns or (turns[0].api_key == ApiKey.PRODUCE and not self._split.blocked)

    def _relay(self, turn: Turn) -> None:
        self._line.join(turn)
        self._answers.expect(turn)

    def _request(self, turn: Turn, payload: memoryview) -> None:
        if not is_let_through(turn.api_key, turn.version):
            self._answer_version(turn)
            return
        header, body = read_request(payload)
        if turn.api_key == ApiKey.PRODUCE:
            self._produce(turn, header, body, payload)
        elif (refused := refuse(turn.api_key, turn.version, body, self._hub.view.hidden)) is not None:
            self._hub.metrics.refused_requests.inc()
            self.answer_here(turn, refused)
            self.release(turn)
        else:
            if self._login is not None and turn.api_key in _LOGIN:
                self._note_login(self._login, turn, body)
            concealed = conceal(turn.api_key, turn.version, body, self._hub.view.hidden)
            turn.asked = concealed.asked
            self._relay(turn)
            self._server.write(request_frame(header, concealed.body) if turn.asked else as_it_came(payload))
            self._sent(turn)

    @staticmethod
    def _note_login(login: Login, turn: Turn, body: memoryview) -> None:
        if turn.api_key == ApiKey.SASL_HANDSHAKE:
            login.handshake(decode(SaslHandshakeRequest, turn.version, body).mechanism)
        else:
            turn.principal = login.authenticate(bytes(decode(SaslAuthenticateRequest, turn.version, body).auth_bytes))

    def _answer_version(self, turn: Turn) -> None:
        if turn.api_key == ApiKey.API_VERSIONS:
            turn.version = 0
            self.answer_here(turn, unsupported_version())
            return
        refusal = encode(SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 1)  # as in version 0
        self.answer_here(turn, refusal)
        self.close(f"SaslHandshake version {turn.version}: what follows it has no headers, use version 1")

    def _produce(self, turn: Turn, header: RequestHeader, body: memoryview, payload: memoryview) -> None:
        request = decode(ProduceRequest, header.version, body)
        if (refused := refuse_decoded(request, header.version, self._hub.view.hidden)) is not None:
            self._hub.metrics.refused_requests.inc()
            if request.acks == 0:
                self.end("a Produce to a hidden topic")
            else:
                self.answer_here(turn, refused)
        elif self._split.concerns(request):
            self._split.produce(turn, header, request, len(payload))
            return
        else:
            if request.acks != 0:
                self._relay(turn)
            self._server.write(as_it_came(payload))
        self._sent(turn)

    def _sent(self, turn: Turn) -> None:
        """To the broker, or to the buffer before it."""
        if self.client.is_held_for(SERVER_NOT_READING):
            self._flushing.append(turn)
        else:
            self.release(turn)

    # --- what the splitter needs

    def grow(self, turn: Turn, size: int) -> None:
        """More is held for a request than what came."""
        self._held.grow(turn, size)

    def join(self, turn: Turn) -> None:
        turn.relayed = False
        self._line.join(turn)

    def answer_here(self, turn: Turn, body: list[Buffer]) -> None:
        """A turn that no broker will answer."""
        self.join(turn)
        self.answer(turn, body)

    def answer(self, turn: Turn, body: list[Buffer]) -> None:
        """One that has joined."""
        self._line.answer(turn, answer_to(turn, body))

    def ship(self, shipment: "UpstreamProduce") -> None:
        """A Produce that the split has made, to the broker."""
        self._answers.expect(shipment)
        self._server.write(request_frame(shipment.header, encode(shipment.request, shipment.header.version)))

    def ask(self, asked: RightsAsked) -> None:
        """A question of the proxy's that the broker answers for the client."""
        self._answers.expect(asked)
        self._server.write(request_frame(asked.header, encode(asked.request, asked.header.version)))

    @property
    def principal(self) -> str:
        return ANONYMOUS if self._login is None else self._login.principal

    def mute(self, account: Account, wait_s: float) -> None:
        """What was read is carried out; nothing more is read for so long."""
        now_s = self._hub.clock.monotonic_s()
        more_s = now_s + wait_s - max(self._muted_until_s, now_s)
        if more_s <= 0 or self._is_closed:
            return
        account.note_muted(more_s)
        self._muted_until_s = now_s + wait_s
        self.client.hold(OVER_QUOTA)
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._unmuting = asyncio.get_running_loop().call_later(wait_s, self.client.release, OVER_QUOTA)

    # --- answers

    def _take_answers(self, data: bytes) -> None:
        self._answers.take(data)
        self.take_up()

    def _log_in(self, turn: Turn) -> None:
        if self._login is not None:
            self._login.succeeded(turn.principal)
        if not self._logged_in:
            self._logged_in = True
            self.frame_limit = "frame_bytes_max"
            self._requests.limit(self._hub.settings.frame_bytes_max)
