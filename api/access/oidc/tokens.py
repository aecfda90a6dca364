"""Bearer tokens of requests. A token is checked once: from then on a digest of it, under a secret of this process,
finds who it is about. Whether it still counts is looked up for each request, and every second in a stream."""

import hashlib
import secrets
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

from api.access.oidc.claims import checked_header, of_access_token
from api.access.oidc.provider import Provider
from api.access.oidc.strict import NotAccepted, Object, take_apart
from api.http.caller import unauthenticated
from api.http.problems import Refusal
from delayline.clock import Clock

KNOWN_MAX = 10_000
_UNSIGNED = "no key of the identity provider has signed it"


class CheckedToken(NamedTuple):
    """Who a token is about, until when (epoch ms), and which key has signed it."""

    names: tuple[str, ...]
    end_ms: int
    thumbprint: str


class Tokens:
    """Checks tokens of a provider. For the event loop's thread."""

    def __init__(self, provider: Provider, clock: Clock, registry: CollectorRegistry) -> None:
        self._provider = provider
        self._settings = provider.settings
        self.marks_sessions = provider.settings.of_sessions
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, CheckedToken] = {}  # bounded: KNOWN_MAX
        self._refused = Counter(
            "delayline_access_tokens_refused",
            "Tokens of the identity provider, or of another, that were refused",
            registry=registry,
        )

    async def check(self, token: bytes) -> CheckedToken:
        """Hot: once per request. Raises Refusal (401, 503)."""
        digest = hashlib.blake2b(token, key=self._secret, digest_size=32).digest()
        known = self._known.get(digest)
        if known is None:
            try:
                known = await self._checked(token)
            except NotAccepted as error:
                raise self._no(str(error)) from None
            self._remember(digest, known)
        self.check_again(known)
        return known

    def check_again(self, known: CheckedToken) -> None:
        """Raises Refusal: 401 where it has expired, or its key is not the provider's any more, 503."""
        if self._clock.now_ms() >= known.end_ms:
            raise self._no("it has expired")
        if not self._provider.goes_on(known.thumbprint):
            raise self._no(_UNSIGNED)

    async def _checked(self, token: bytes) -> CheckedToken:
        """Nothing that it claims is looked at before its signature. Raises NotAccepted, Refusal (503)."""
        parts = take_apart(token)
        thumbprint = await signed_by(self._provider, token, parts.header)
        identity = of_access_token(parts.claims, self._settings, self._clock.now_ms())
        return CheckedToken(*identity, thumbprint)

    def _remember(self, digest: bytes, known: CheckedToken) -> None:
        self._known[digest] = known
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _no(self, why: str) -> Refusal:
        self._refused.inc()
        return unauthenticated(f"the token is refused: {why}")


async def signed_by(provider: Provider, token: bytes, header: Object) -> str:
    """The thumbprint of the key that has signed it. Raises NotAccepted, Refusal (503)."""
    key_id, algorithm = checked_header(header, provider.settings.algorithms)
    key = await provider.key(key_id, algorithm)
    if key is None or not key.has_signed(token, algorithm):
        raise NotAccepted(_UNSIGNED)
    return key.thumbprint
