"""uvicorn's HTTP protocol with bounds on what is not a request yet, and on clients that do not go on.

    connected, or the last answer sent     idle: `idle_timeout_s`, at first `head_timeout_s`; may be evicted
    first byte -> end of the headers       `head_timeout_s`, `head_bytes_max`, `head_fields_max`; may be evicted
    end of the headers -> answer sent      the application's: it bounds bodies, and how many requests there are
    the answer waits to be read            `send_timeout_s` for each SLOWEST_BYTES of it

Bytes are counted where they arrive, because llhttp and httptools keep a header that has no end without reporting it
(docs/adr/0016-limits-in-the-protocol.md).
"""

import re
from asyncio import TimerHandle, Transport
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from delayline.http.guard import LINGERING_MAX, MALFORMED, Guard, Refused
from delayline.http.places import address_key
from delayline.http.whole import WHOLE, WholeAnswer
from delayline.process.peer import PeerCertificate, peer_certificate

PIPELINED_MAX = 16
"""Requests behind the one that is answered. Clients hardly do it; each costs some 3 KiB."""

LINGER_S = 1.0
SLOWEST_BYTES = 16 << 10

PEER = "delayline.peer"
"""Key in the ASGI scope: the client's certificate. Absent where it has shown none."""

_HOST = b"host"


_PIPELINED = MALFORMED._replace(detail=f"at most {PIPELINED_MAX} requests wait for the answers before them")


class _Stop(Exception):
    """Ends the parser; `refused` has the reason."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection. Its hooks are those of the pinned uvicorn; tests/unit/delayline/http/test_http_protocol.py
    would show that one is gone."""

    def __init__(self, guard: Guard, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.address = ""
        self._guard = guard
        self._limits = guard.limits
        self._peer: PeerCertificate | None = None
        self._bytes_max, self._fields_max = guard.limits.head_bytes_max, guard.limits.head_fields_max
        self._deadline: TimerHandle | None = None
        self._reading: TimerHandle | None = None  # of the answer, by the client
        self._unread_bytes = 0
        self._refused: Refused | None = None
        self._ended = False  # what still comes is dropped
        self._lingers = False
        self._open = 0  # requests whose answer is not sent yet
        self._in_body = False
        self._progress = False
        self._silent_bytes = 0  # since the last time that the parser came further
        self._head_bytes = self._head_fields = 0

    # --- the connection

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_key(self.client[0] if self.client else None)
        self._peer = peer_certificate(transport)
        full = self._guard.places.enter(self)
        if full is not None:
            self._refuse(self._guard.full(full))
            return
        self._within(self._limits.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.places.leave(self)
        self._guard.lingering -= self._lingers
        self._lingers = False
        self._cancel_deadline()
        self._cancel_reading()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def evict(self) -> None:
        self._end("evicted")

    def timeout_keep_alive_handler(self) -> None:
        self._end("idle")

    def _end(self, reason: str) -> None:
        """Without an answer: no request waits for one, or the client reads none."""
        self._guard.count(reason)
        self._ended = True
        self.transport.abort()

    # --- what comes

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        begins = self._deadline is None and not self._in_body
        self._unset_keepalive_if_required()
        self._progress = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # there is nothing to upgrade to, and the request counts as it is (RFC 9110, 7.8)
        except httptools.HttpParserError:
            self._refuse(self._refused or MALFORMED)
            return
        if begins and not self._progress:  # a head that came whole needs no deadline
            self._within(self._limits.head_timeout_s)
        self._silent_bytes = 0 if self._progress else self._silent_bytes + len(data)
        if self._silent_bytes > self._limits.head_bytes_max:
            self._refuse(self._guard.head_too_large())

    def on_message_begin(self) -> None:
        self._head_bytes = self._head_fields = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        if self._head_bytes > self._bytes_max:
            self._stop(self._guard.head_too_large())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also for trailers, which uvicorn keeps with the headers. Hot: several times per request."""
        self._head_fields += 1
        self._head_bytes += len(name) + len(value) + 4
        if self._head_fields > self._fields_max:
            self._stop(self._guard.too_many_fields())
        if self._head_bytes > self._bytes_max:
            self._stop(self._guard.head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            self._stop(_PIPELINED)
        self._progress = self._in_body = True
        self._cancel_deadline()
        if not self.url.startswith(b"/"):
            self._heed_absolute_form()
        super().on_headers_complete()
        if self._peer is not None:
            self.scope[PEER] = self._peer  # type: ignore[literal-required]
        self.scope[WHOLE] = WholeAnswer(self.cycle)  # type: ignore[literal-required]
        self._open += 1
        self._guard.places.works(self)

    def _heed_absolute_form(self) -> None:
        """Its authority is the host, whatever the Host header has (RFC 9112, 3.2.2): else the one could be checked,
        and the other be meant. In HTTP/1.1 a Host header that is missing stays an error, as one that stands twice."""
        _, is_absolute, rest = self.url.partition(b"://")
        if not is_absolute:
            return
        authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
        self.headers[:] = [(name, authority if name == _HOST else value) for name, value in self.headers]
        if self.parser.get_http_version() == "1.0" and all(name != _HOST for name, _ in self.headers):
            self.headers.append((_HOST, authority))

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress, self._in_body = True, False
        super().on_message_complete()
        if not self._open:  # answered before its end
            self._cancel_deadline()
            self._wait_for_the_next()

    def _stop(self, refused: Refused) -> None:
        self._refused = refused
        raise _Stop

    # --- what goes

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._open -= 1
        if self._open or self.transport.is_closing():
            self._watch_reading()
            return
        self._guard.places.waits(self)
        self._watch_reading()
        if self._in_body:  # nobody wants the rest of it
            self._unset_keepalive_if_required()
            self._within(self._limits.head_timeout_s)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_reading()

    def _watch_reading(self) -> None:
        """Also of a connection that is closing: it is there until its answer is read."""
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes and self._reading is None:
            self._unread_bytes = unread_bytes
            self._reading = self.loop.call_later(self._limits.send_timeout_s, self._check_reading)

    def _check_reading(self) -> None:
        self._reading = None
        if self._open and not self.flow.write_paused:
            return  # more is written beside it, so that its size shows nothing; a pause looks again
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes and self._unread_bytes - unread_bytes < SLOWEST_BYTES:
            self._end("slow-reader")
        else:
            self._watch_reading()

    # --- deadlines and refusals

    def _within(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        self._deadline = None
        if self._open:  # the head behind a request that is not answered yet
            self._within(self._limits.head_timeout_s)
        elif self._in_body:
            self._end("slow-body")
        elif self._silent_bytes or self._head_bytes:
            self._refuse(self._guard.head_too_slow())
        else:
            self._end("idle")

    def _wait_for_the_next(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _refuse(self, refused: Refused) -> None:
        """Answer if no other answer comes before it, and end the connection."""
        self._guard.count(refused.reason)
        self._ended = True
        self._cancel_deadline()
        if self._open and not self._in_body:  # the answers to what came before are still to be sent
            self.cycle.keep_alive = False
            return
        if self._open > 1 or (self._open and self.cycle.response_started):
            self.transport.abort()
            return
        if self._open:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(refused.answer())
        self._linger()

    def _linger(self) -> None:
        """A close with bytes unread is a reset, and a reset may take the answer from the client (RFC 9112, 9.6)."""
        self._guard.places.leave(self)
        if self._guard.lingering >= LINGERING_MAX:
            self.transport.close()
            return
        self._guard.lingering += 1
        self._lingers = True
        if self.transport.can_write_eof():  # over TLS it cannot: the end comes with the connection's
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
