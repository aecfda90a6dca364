"""The limits of one HTTP port, its places, and what it counts."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from delayline.http.places import NoPlace, Places, share_of

RETRY_AFTER_S = 1
LINGERING_MAX = 64
"""Refused connections that are kept for a second, so that a client that still writes can read why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one port takes from strangers. See docs/configuration.md."""

    connections_max: int = 1024
    address_share_percent: int = 100  # of the connections, for one address
    head_bytes_max: int = 64 << 10
    head_fields_max: int = 100
    head_timeout_s: float = 10.0
    idle_timeout_s: float = 75.0
    send_timeout_s: float = 30.0


class Refused(NamedTuple):
    """An answer of the protocol's own, before there is a request; `reason` is a metric's label."""

    reason: str
    status: int
    detail: str

    def answer(self) -> bytes:
        """The whole response: a problem document (RFC 9457)."""
        phrase = HTTPStatus(self.status).phrase
        document = {"type": f"/problems/{self.reason}", "title": phrase, "status": self.status, "detail": self.detail}
        body = json.dumps(document, separators=(",", ":")).encode()
        retry = f"retry-after: {RETRY_AFTER_S}\r\n" if self.status in (429, 503) else ""
        head = (
            f"HTTP/1.1 {self.status} {phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
        )
        return head.encode() + body


MALFORMED = Refused("malformed-request", 400, "this is no HTTP/1.1 request")
_FULL = {
    NoPlace.ALL: Refused("too-many-connections", 503, "all connections that the server allows are busy"),
    NoPlace.ADDRESS: Refused("too-many-of-address", 429, "your address has as many connections as one may have"),
}


class Guard:
    """For one port, within its event loop. `name` begins its metrics: `delayline_http` or `delayline_internal`."""

    def __init__(self, limits: HttpLimits, registry: CollectorRegistry, name: str = "delayline_http") -> None:
        self.limits = limits
        self.places = Places(limits.connections_max, share_of(limits.connections_max, limits.address_share_percent))
        self.handshakes = Places(self.places.places_max, self.places.per_address_max)  # of TLS: as many, besides
        self.lingering = 0
        self._dropped = Counter(
            f"{name}_connections_dropped",
            "Connections that were refused or ended because of a limit, by reason.",
            ("reason",),
            registry=registry,
        )
        Gauge(f"{name}_connections", "Open connections.", registry=registry).set_function(lambda: self.places.taken)
        most = Gauge(f"{name}_connections_max", "As many connections as there may be.", registry=registry)
        most.set(limits.connections_max)

    def count(self, reason: str) -> None:
        self._dropped.labels(reason).inc()

    def head_too_large(self) -> Refused:
        detail = f"a request line and its headers have at most {self.limits.head_bytes_max} bytes"
        return Refused("head-too-large", 431, detail)

    def too_many_fields(self) -> Refused:
        return Refused("head-too-large", 431, f"a request has at most {self.limits.head_fields_max} headers")

    def head_too_slow(self) -> Refused:
        detail = f"the request line and its headers took longer than {self.limits.head_timeout_s:g} s"
        return Refused("head-too-slow", 408, detail)

    @staticmethod
    def full(why: NoPlace) -> Refused:
        return _FULL[why]
