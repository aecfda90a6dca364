"""One client's connection, and the one to the broker that stands behind it.

Bytes that need not be read pass as they come, in both directions, and what one side does not read the other is
not asked for. Of what is looked at:

    ApiVersions, Metadata, ...   the answer is rewritten            proxy.kafka.view.rewrite
    whatever names hidden topics is answered here                   proxy.kafka.view.refuse
    Produce                      goes through the split             proxy.kafka.produce.split

Answers leave in the order of the requests (`response_order.ResponseOrderer`). While a Produce of the split is under
way, only further Produces are taken up; everything else waits behind it, as it would in a broker, which carries out
one request of a connection after the other. So nothing large is ever kept until its turn.

Where the broker ends, both do. Where the client does, what was read from it first goes where it belongs: a producer
that takes no answers (acks=0) sends, closes, and counts on it. `drain_max_s` bounds that.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from delayline.process import logs
from kafkawire.protocol.apis import ApiKey, is_let_through
from kafkawire.protocol.errors import ErrorCode, FrameTooLarge, PeerError, UnsupportedVersion
from kafkawire.protocol.frames import Piece, Whole
from kafkawire.protocol.message import PEEK_BYTES, RequestHeader, decode, encode, peek, read_request, request_frame
from kafkawire.protocol.messages.cluster import SaslHandshakeResponse
from kafkawire.protocol.messages.produce import ProduceRequest
from kafkawire.protocol.primitives import Buffer
from proxy.endpoint import Endpoint
from proxy.held import HeldBytes
from proxy.kafka.frontend.answers import Answers, answer_to, as_it_came
from proxy.kafka.frontend.connecting import connect
from proxy.kafka.produce.rights import RightsAsked
from proxy.kafka.produce.split import ProduceSplitter
from proxy.kafka.response_order import FrameTagger, ResponseOrderer, Turn
from proxy.kafka.view.refuse import refuse, refuse_decoded, request_is_read
from proxy.kafka.view.rewrite import conceal, unsupported_version
from proxy.limits import SMALL_BYTES, Deadlines

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub
    from proxy.kafka.produce.produces import UpstreamProduce

TURNS_MAX = 1000
"""Requests of a connection that wait for answers, before no more are read. Clients send at most a handful."""

HELD_BYTES_MAX = 32 << 20
"""Of Produces under way on a connection, before no more are read. A single one may be larger (the frame limit)."""

BROKER_NOT_READING = "the broker does not read"
NOT_READING = "the client does not read"

log = logs.get(__name__)


class Relay:
    """Made for each client that connects. `node_id` None: to any server. `began` and then `ended` are called once."""

    def __init__(
        self, hub: "Hub", node_id: int | None, began: "Callable[[Relay], None]", ended: "Callable[[Relay], None]"
    ) -> None:
        self._hub = hub
        self._node_id = node_id
        self._began = began
        self._ended = ended
        self.client = Endpoint(
            self._client_made, self._from_client, self._client_lost, self._client_full, self._begin_to_drain
        )
        self._broker = Endpoint(self._broker_made, self._from_broker, self.close, self._broker_full)
        frame_bytes_max, limits = hub.settings.frame_bytes_max, hub.settings.limits
        # The brokers demand of clients what they demand of the proxy: SASL, or nothing.
        self._logged_in = hub.settings.access.own.credentials is None
        first_bytes_max = frame_bytes_max if self._logged_in else min(frame_bytes_max, limits.login_frame_bytes_max)
        self._requests: FrameTagger[Turn] = FrameTagger(self._note_request, PEEK_BYTES, first_bytes_max)
        self._deadlines = Deadlines(limits)
        self._held = HeldBytes(hub.budget, self.client, hub.metrics.limited)
        self._flushing: list[Turn] = []  # relayed to a broker that does not read right now
        self._inbox: deque[tuple[Piece, Sequence[Turn]]] = deque()  # of what was read in one go
        self._line = ResponseOrderer(self.client.write)
        self._split = ProduceSplitter(hub, self)
        self._answers = Answers(hub, self.client, self._line, self._split, self._log_in)
        self._early: list[bytes] = []  # read before the broker's side was up
        self.address = ""  # of the client's machine, once it is counted
        self._ready = False
        self._closed = False
        self._ending = False  # what has been read is still carried out, and nothing new is
        self._refusing = False
        self._client_gone = False
        self._draining: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- beginning and end

    def _client_made(self) -> None:
        self._hub.metrics.connections.inc()
        self._began(self)
        if self._closed:
            return
        asyncio.get_running_loop().call_soon(self._hold_while_connecting)  # uvloop begins to read after this call
        self.run(self._connect())

    def _hold_while_connecting(self) -> None:
        if not self._ready:
            self.client.hold("connecting")

    async def _connect(self) -> None:
        trouble = await connect(self._hub, self._node_id, self._broker)
        if trouble is not None:
            self.close(f"the broker cannot be reached: {trouble or 'no answer'}")

    def _broker_made(self) -> None:
        if self._closed:
            self._broker.close()
            return
        self._ready = True
        early, self._early = b"".join(self._early), []
        if early:  # in one go: with a client that has gone, the connection ends when nothing is left to be done
            self._from_client(early)
        self.client.release("connecting")

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the background, for as long as the connection lasts. Failing, it ends the connection."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, PeerError):
            self.close(str(error))
        elif error is not None:
            self.close("an error of the proxy")
            raise error  # to the event loop, which logs it

    def stop(self) -> None:
        """End as soon as no request waits for an answer."""
        self._ending = True
        self.client.hold("stopping")
        self._end_if_idle()

    def _client_lost(self) -> None:
        self._client_gone = True
        self._broker.release(NOT_READING)  # nor will it: what comes for it is dropped
        self._begin_to_drain()

    def _begin_to_drain(self) -> None:
        """The client sends no more. It may still read, unless it is gone."""
        if self._closed:
            return
        self._ending = True
        if self._draining is None:
            wait_s = self._hub.settings.drain_max_s
            self._draining = asyncio.get_running_loop().call_later(wait_s, self._give_up_draining)
        self._end_if_idle()

    def end(self, reason: str) -> None:
        """Carry out what was taken up, and nothing that was read behind it."""
        self._inbox.clear()
        self._read_no_more(reason)

    def _read_no_more(self, reason: str) -> None:
        """What has been read is carried out."""
        if self._closed or self._refusing:
            return
        log.warning("connection ends", client=self.client.peer, node=self._node_id, reason=reason)
        self._refusing = True
        self.client.hold("ending")
        self._begin_to_drain()

    def _give_up_draining(self) -> None:
        self._hub.metrics.undrained.inc()
        self.close("the client has gone, and its last requests took too long")

    def _end_if_idle(self) -> None:
        if self._ending and self._is_idle:
            self.close()

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left to be carried out, nor to be sent to a client that may still listen."""
        if self._early or self._inbox or self._split.busy:
            return False
        if self._client_gone:  # a Fetch does nothing but answer, perhaps in a minute
            return all(isinstance(one, Turn) and one.api_key == ApiKey.FETCH for one in self._answers.expected)
        return not self._line

    def close(self, reason: str = "") -> None:
        """`reason` is logged where it is not just that a peer has gone."""
        if self._closed:
            return
        self._closed = True
        if self._draining is not None:
            self._draining.cancel()
        if reason:
            log.warning("connection closed", client=self.client.peer, node=self._node_id, reason=reason)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._split.close()
        self._held.close()
        self._inbox.clear()
        self._early.clear()
        self.client.close()
        self._broker.close(self._hub.settings.drain_max_s)
        self._hub.metrics.connections.dec()
        self._ended(self)

    def _client_full(self, is_full: bool) -> None:
        (self._broker.hold if is_full else self._broker.release)(NOT_READING)

    def _broker_full(self, is_full: bool) -> None:
        (self.client.hold if is_full else self.client.release)(BROKER_NOT_READING)
        if not is_full:
            flushed, self._flushing = self._flushing, []
            for turn in flushed:
                self.release(turn)

    # --- requests

    def _from_client(self, data: bytes) -> None:
        if self._closed or self._refusing:
            return
        if not self._ready:
            self._early.append(data)
            return
        self._hub.metrics.from_clients.inc(len(data))
        self._deadlines.heard = True
        try:
            self._inbox.extend(self._requests.feed(data))
        except PeerError as error:
            if isinstance(error, FrameTooLarge):
                self._hub.metrics.limited.labels(
                    "frame_bytes_max" if self._logged_in else "login_frame_bytes_max"
                ).inc()
            self._read_no_more(str(error))
        self.take_up()

    def _note_request(self, head: memoryview, length: int) -> tuple[Turn, bool]:
        api_key, version, correlation_id = peek(head)
        turn = Turn(api_key, version, correlation_id)
        if is_let_through(api_key, version):
            whole = request_is_read(api_key)
            if whole and length > SMALL_BYTES:
                self._held.pay(turn, length)
            return turn, whole
        if api_key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            raise UnsupportedVersion(f"API {api_key} version {version} is not let through")
        return turn, True

    def check_deadlines(self, now_s: float) -> None:
        """To be called from time to time."""
        if self._closed or not self._ready or self._draining is not None:
            return
        frame = self._requests.unfinished
        excused = self.client.is_held or (frame is None and (bool(self._line) or self._split.busy))
        login_timeout_s = None if self._logged_in else self._hub.settings.limits.login_timeout_s
        passed = self._deadlines.overdue(now_s, frame, excused=excused, login_timeout_s=login_timeout_s)
        if passed is not None:
            self._hub.metrics.limited.labels(passed).inc()
            self.close(f"proxy.kafka.{passed} has passed")

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
                self._broker.write([piece.data])
        waiting = bool(self._inbox) or len(self._line) > TURNS_MAX or self._split.bytes_held > HELD_BYTES_MAX
        (self.client.hold if waiting else self.client.release)("requests before it")
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
            concealed = conceal(turn.api_key, turn.version, body, self._hub.view.hidden)
            turn.asked = concealed.asked
            self._relay(turn)
            self._broker.write(request_frame(header, concealed.body) if turn.asked else as_it_came(payload))
            self._sent(turn)

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
            self._broker.write(as_it_came(payload))
        self._sent(turn)

    def _sent(self, turn: Turn) -> None:
        """To the broker, or to the buffer before it."""
        if self.client.is_held_for(BROKER_NOT_READING):
            self._flushing.append(turn)
        else:
            self.release(turn)

    # --- what the splitter needs

    def release(self, turn: Turn) -> None:
        """Nothing is held of its request any more."""
        self._held.release(turn)

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
        self._broker.write(request_frame(shipment.header, encode(shipment.request, shipment.header.version)))

    def ask(self, asked: RightsAsked) -> None:
        """A question of the proxy's that the broker answers for the client."""
        self._answers.expect(asked)
        self._broker.write(request_frame(asked.header, encode(asked.request, asked.header.version)))

    # --- answers

    def _from_broker(self, data: bytes) -> None:
        if self._closed:
            return
        self._hub.metrics.to_clients.inc(len(data))
        try:
            self._answers.take(data)
        except PeerError as error:
            self.close(f"the broker's answer: {error}")
        else:
            self.take_up()

    def _log_in(self) -> None:
        if not self._logged_in:
            self._logged_in = True
            self._requests.limit(self._hub.settings.frame_bytes_max)
