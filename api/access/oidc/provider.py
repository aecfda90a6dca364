"""An identity provider as it is now: its keys and its endpoints, looked up by a thread of its own.

    every 5 minutes          the keys are read again: one that is gone ends the tokens that it has signed
    a token with unknown id  they are read again at once, but once in 10 s however many such tokens come
    no answer                tried again every 10 s; what was read last stays in force for a day, then nothing is

The thread also reads while no request comes, since streams that are open go on by a token.
"""

import asyncio
from concurrent.futures import Future
from threading import Event, Lock
from typing import NamedTuple, Self

import structlog
from prometheus_client import CollectorRegistry, Gauge

from api.access.oidc.claims import OidcSettings
from api.access.oidc.exchange import ProviderHttp, ProviderUnavailable
from api.access.oidc.keys import PublicKey, PublicKeys, parse_keys
from api.access.oidc.strict import NotAccepted, Object, read_object
from api.http.problems import LIMIT_EXCEEDED, NOT_READY, Refusal
from delayline.clock import Clock
from delayline.http.urls import is_safe_url
from delayline.process import threads

READ_EVERY_S = 300.0
AGAIN_S = 10.0
"""From one try to the next one, whatever asks for it."""
KEPT_S = 86_400.0
"""How long keys stay in force that cannot be read again: a provider that is down must not stop producers, and an
attacker who keeps it from answering must not keep a key that was withdrawn for ever."""

WOKEN_S = 1.0
WAITING_MAX = 64
"""Requests that wait for one look."""

DISCOVERY = "/.well-known/openid-configuration"

_log = structlog.get_logger("access")


class Endpoints(NamedTuple):
    """Of a login. `answers_with_iss`: the provider names itself when it sends a browser back (RFC 9207)."""

    authorization: str
    token: str
    takes_basic: bool
    answers_with_iss: bool


class ProviderState(NamedTuple):
    """What was read at a time of the monotonic clock. `endpoints` is None without a client for logins."""

    keys: PublicKeys
    endpoints: Endpoints | None
    read_s: float


class Provider:
    """The keys and endpoints of the issuer. Its attributes are for any thread, `look` for one, the rest for the event
    loop's."""

    def __init__(self, settings: OidcSettings, http: ProviderHttp, clock: Clock, registry: CollectorRegistry) -> None:
        self.settings = settings
        self.http = http
        self._clock = clock
        self._state: ProviderState | None = None
        self._tried_s: float | None = None
        self._is_broken = False
        self._asked: Future[None] | None = None  # of all requests that wait for a look
        self._waiting = 0
        self._lock = Lock()
        self._wake, self._closing = Event(), Event()
        self._broken = Gauge(
            "delayline_access_oidc_broken",
            "1 while the identity provider does not answer, or not as it must, and what was read before is in force",
            registry=registry,
        )

    def __enter__(self) -> Self:
        threads.lasting("access-oidc", self._watch, self._closing).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._wake.set()

    def _watch(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._wake.wait(WOKEN_S)
            self._wake.clear()

    def look(self) -> None:
        """Read what is due to be read. Requests that wait for it go on, however it ends."""
        if not self._is_due():
            return
        with self._lock:  # who comes while it reads waits for it, too
            asked = self._asked = self._asked or _not_cancelled()
        try:
            self._read()
        finally:
            with self._lock:
                self._asked = None
            asked.set_result(None)

    def _is_due(self) -> bool:
        if self._tried_s is None:
            return True
        now_s, state = self._clock.monotonic_s(), self._state
        is_old = state is None or now_s - state.read_s >= READ_EVERY_S
        return (is_old or self._asked is not None) and now_s - self._tried_s >= AGAIN_S

    def _read(self) -> None:
        self._tried_s = self._clock.monotonic_s()
        try:
            state = self._read_now(self._tried_s)
        except (ProviderUnavailable, NotAccepted) as error:
            if not self._is_broken:
                _log.error("the identity provider cannot be used; what was read before stays", error=str(error))
            self._set_broken(True)
            return
        self._state = state
        if self._is_broken:
            _log.info("the identity provider answers again", issuer=self.settings.issuer)
        self._set_broken(False)

    def _set_broken(self, is_broken: bool) -> None:
        self._is_broken = is_broken
        self._broken.set(is_broken)

    def _read_now(self, now_s: float) -> ProviderState:
        """Raises ProviderUnavailable, NotAccepted."""
        settings, jwks_url, endpoints = self.settings, self.settings.jwks_url, None
        if not jwks_url or settings.client is not None:
            found = _discovered(self.http.get(settings.issuer.rstrip("/") + DISCOVERY), settings.issuer)
            jwks_url = jwks_url or _url(found, "jwks_uri")
            endpoints = None if settings.client is None else _endpoints(found)
        return ProviderState(parse_keys(self.http.get(jwks_url)), endpoints, now_s)

    @property
    def _current(self) -> ProviderState:
        """Raises Refusal (503)."""
        state = self._state
        if state is None or self._clock.monotonic_s() - state.read_s > KEPT_S:
            raise Refusal(
                NOT_READY, "the identity provider does not answer, so its tokens cannot be checked right now"
            )
        return state

    def goes_on(self, thumbprint: str) -> bool:
        """Whether the key is still one of the provider's. Raises Refusal (503)."""
        return thumbprint in self._current.keys

    async def key(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The key that has to have signed a token. Raises Refusal (503)."""
        if self._state is not None and (found := self._current.keys.find(key_id, algorithm)) is not None:
            return found
        await self._looked()
        return self._current.keys.find(key_id, algorithm)

    async def endpoints(self) -> Endpoints:
        """Raises Refusal (503)."""
        if self._state is None:
            await self._looked()
        endpoints = self._current.endpoints
        assert endpoints is not None, "only logins ask"
        return endpoints

    async def _looked(self) -> None:
        """The look under way or the next one, shared with others that wait; none where the last one has just been.
        Raises Refusal (503)."""
        asked = self._next_look()
        if asked is None:
            return
        if self._waiting >= WAITING_MAX:
            raise Refusal(LIMIT_EXCEEDED, "too many tokens with unknown keys are being looked at", status=503)
        self._waiting += 1
        try:
            await asyncio.wrap_future(asked)
        finally:
            self._waiting -= 1

    def _next_look(self) -> "Future[None] | None":
        with self._lock:
            has_just_been = self._tried_s is not None and self._clock.monotonic_s() - self._tried_s < AGAIN_S
            if self._asked is None and not has_just_been:
                self._asked = _not_cancelled()
                self._wake.set()
            return self._asked


def _not_cancelled() -> "Future[None]":
    """A client that goes away ends its own wait alone."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


def _discovered(data: bytes, issuer: str) -> Object:
    """OpenID Connect Discovery, 4.3: another issuer's document is none of ours. Raises NotAccepted."""
    found = read_object(data)
    if found.get("issuer") != issuer:
        raise NotAccepted("the discovery document is of another issuer than access.oidc.issuer")
    return found


def _endpoints(found: Object) -> Endpoints:
    """Raises NotAccepted."""
    methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        authorization=_url(found, "authorization_endpoint"),
        token=_url(found, "token_endpoint"),
        takes_basic=isinstance(methods, list) and "client_secret_basic" in methods,
        answers_with_iss=found.get("authorization_response_iss_parameter_supported") is True,
    )


def _url(found: Object, name: str) -> str:
    """Raises NotAccepted."""
    url = found.get(name)
    if not isinstance(url, str) or not is_safe_url(url, with_query=True):
        raise NotAccepted(f"the discovery document has no {name} with https, or on this machine")
    return url
