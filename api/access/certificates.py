"""Callers that are known by the certificate of their connection, where a request shows nothing else.

The name of one is `x509:` and the subject (RFC 4514), such as `x509:CN=orders,O=Acme`, or `uri:` and the one URI of
its alternative names, such as `uri:spiffe://acme/orders` (SPIFFE X.509-SVID, 2). No key has a name with a colon.
"""

from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, Counter
from starlette.types import Scope

from api.access.cookies import SESSION
from api.http.caller import Anyone, Caller, Callers, Unknown, unauthenticated
from api.http.hosts import ACT, HARMLESS
from api.http.problems import FORBIDDEN, Refusal
from delayline.access.acts import Act
from delayline.access.rules import AccessRules
from delayline.clock import Clock
from delayline.http.protocol import PEER
from delayline.process.peer import PeerCertificate

NAME_CHARS_MAX = 255
"""As long as a rule can name it."""

Naming = Literal["subject", "uri"]

_OVER = "the certificate of this connection has expired"
_BY_A_PAGE = (
    "what changes something by a certificate alone needs the header Delayline-Request, with any value: a page of "
    "another site cannot send it, and the browser adds the certificate by itself"
)
_NAMELESS = {
    "subject": f"the certificate of this connection has no subject, or one of more than {NAME_CHARS_MAX} characters",
    "uri": "the certificate of this connection has no URI among its alternative names, more than one, or one of more "
    f"than {NAME_CHARS_MAX} characters",
}


class RuleSource(Protocol):
    """The part of `AccessSource` by which rights are decided."""

    @property
    def rules(self) -> AccessRules: ...


class CertificateCaller:
    """The caller behind a certificate, until that expires."""

    def __init__(self, name: str, end_ms: int, source: RuleSource, clock: Clock) -> None:
        self._name = name
        self._source = source
        self._clock = clock
        self.end_ms = end_ms

    @property
    def principal(self) -> str:
        if self._clock.now_ms() >= self.end_ms:
            raise unauthenticated(_OVER)
        return self._name

    def may(self, act: Act, topic: str | None) -> bool:
        return self._source.rules.deciding((self.principal,), act, topic) is not None


class CertificateCallers:
    """Leaves to `others` what shows more: the header `authorization` and the cookie of a session, also one that is
    over, count before the certificate, which a browser sends unasked."""

    def __init__(
        self, others: Callers, naming: Naming, source: RuleSource, clock: Clock, registry: CollectorRegistry
    ) -> None:
        self._others = others
        self._naming: Naming = naming
        self._source = source
        self._clock = clock
        self._nameless = Counter(
            "delayline_access_certificates_refused", "Requests by a certificate that makes no name", registry=registry
        )

    async def caller(self, scope: Scope) -> Caller:
        """Raises Refusal (401, 403, 429, 503)."""
        peer: PeerCertificate | None = scope.get(PEER)
        if peer is None or _shows_more(scope):
            return await self._others.caller(scope)
        name = name_of(peer, self._naming)
        if name is None:
            self._nameless.inc()
            return Unknown(_NAMELESS[self._naming])
        if scope["method"] not in HARMLESS and ACT not in scope["delayline.headers"]:
            raise Refusal(FORBIDDEN, _BY_A_PAGE)
        return CertificateCaller(name, peer.ends_ms, self._source, self._clock)


def _shows_more(scope: Scope) -> bool:
    headers = scope["delayline.headers"]
    return b"authorization" in headers or (b"cookie" in headers and bool(SESSION.shown(scope, headers[b"cookie"])))


def name_of(peer: PeerCertificate, naming: Naming) -> str | None:
    """The principal behind a certificate; None where it has none, or more than one."""
    if naming == "subject":
        name = f"x509:{peer.subject}" if peer.subject else ""
    else:
        name = f"uri:{peer.uris[0]}" if len(peer.uris) == 1 and peer.uris[0] else ""
    return name if name and name.isprintable() and len(name) <= NAME_CHARS_MAX else None


class CertificateNeeded:
    """For the ports for metrics and health: with any verified certificate. There are no rules."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def caller(self, scope: Scope) -> Caller:
        peer: PeerCertificate | None = scope.get(PEER)
        if peer is None or self._clock.now_ms() >= peer.ends_ms:
            return Unknown("this needs a client certificate of an authority in metrics.client_cafile")
        return Anyone()
