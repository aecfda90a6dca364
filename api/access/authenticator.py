"""From the header `authorization: Bearer dlk_...` (RFC 6750, 2.1), or the cookie of a session, to the principal; from
a token of the identity provider, where there is one.

The hash of a key takes 20 ms on purpose, so it is compared once: a key that matched is recognised by a digest of it,
under a secret of this process, from then on. With both the header decides.
"""

import asyncio
import hashlib
import hmac
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter
from starlette.types import Scope

from api.access.attempts import Attempts
from api.access.cookies import SESSION
from api.access.sessions import Session, Sessions
from api.http.answers import RawHeader
from api.http.caller import Caller, Unknown, unauthenticated
from api.http.hosts import HARMLESS
from api.http.problems import FORBIDDEN, LIMIT_EXCEEDED, Refusal
from delayline.access.acts import Act
from delayline.access.hashing import Hasher
from delayline.access.keys import AccessKey, Token, parse_token
from delayline.access.rules import AccessRules
from delayline.access.source import AccessSource
from delayline.clock import Clock

if TYPE_CHECKING:
    from api.access.oidc.tokens import CheckedToken, Tokens

KNOWN_MAX = 10_000
WAITING_MAX = 64
"""Keys whose hashes are being compared, or wait for that: a second and a half of a processor."""

_SCHEME = b"bearer "
_NEEDS_KEY = "this needs a key: authorization: Bearer dlk_..."
_NEEDS_EITHER = "this needs a key, or a token of the identity provider: authorization: Bearer ..."
_WRONG = "this key is not known here, or has ended"
_OVER = "this session is over: log in again"
_NO_TOKEN = (
    "what changes something by a session needs the header X-CSRF-Token with the token of this very session; load a "
    "page again that was open before you logged in"
)


class _Known(NamedTuple):
    """A key that was presented and matched; `hash` as it was then."""

    key_id: str
    hash: str


class _Named(ABC):
    """A caller by the names that rules may have for it, as they are now."""

    def __init__(self, authenticator: "Authenticator") -> None:
        self._authenticator = authenticator

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The principal, and its groups. Raises Refusal (401, 503) where what it presented has ended."""

    @property
    def principal(self) -> str:
        return self.names[0]

    def may(self, act: Act, topic: str | None) -> bool:
        return self._authenticator.rules.deciding(self.names, act, topic) is not None


class Holder(_Named):
    """The caller that presents a key."""

    def __init__(self, authenticator: "Authenticator", key: AccessKey) -> None:
        super().__init__(authenticator)
        self._key = key

    @property
    def key(self) -> AccessKey:
        """As it is now. Raises Refusal (401)."""
        return self._authenticator.working(self._key.id, self._key.hash)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key.principal,)

    @property
    def end_ms(self) -> int | None:
        return self.key.expires_ms


class TokenCaller(_Named):
    """The caller that presents a token of the identity provider."""

    def __init__(self, authenticator: "Authenticator", tokens: "Tokens", token: "CheckedToken") -> None:
        super().__init__(authenticator)
        self._tokens = tokens
        self._token = token

    @property
    def names(self) -> tuple[str, ...]:
        self._tokens.check_again(self._token)
        return self._token.names

    @property
    def end_ms(self) -> int | None:
        return self._token.end_ms


class SessionCaller(_Named):
    """The caller that presents a session, which may end before its key."""

    def __init__(self, authenticator: "Authenticator", session: Session, cleared: RawHeader) -> None:
        """`cleared` is the header that drops its cookie."""
        super().__init__(authenticator)
        self.session = session
        self._cleared = cleared

    @property
    def names(self) -> tuple[str, ...]:
        names = self._authenticator.names_of(self.session)
        if names is None:
            raise unauthenticated(_OVER, [self._cleared])
        return names


class Authenticator:
    """Finds the caller of a request. For the event loop's thread; hashes are compared in `threads`."""

    def __init__(
        self,
        source: AccessSource,
        hasher: Hasher,
        sessions: Sessions,
        clock: Clock,
        threads: Executor,
        registry: CollectorRegistry,
        tokens: "Tokens | None" = None,
    ) -> None:
        self._source = source
        self._tokens = tokens
        self._needed = _NEEDS_KEY if tokens is None else _NEEDS_EITHER
        self._hasher = hasher
        self._sessions = sessions
        self._clock = clock
        self._threads = threads
        self._attempts = Attempts(clock)
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, _Known] = {}  # bounded: KNOWN_MAX
        self._comparing: dict[bytes, asyncio.Future[bool]] = {}  # bounded: WAITING_MAX
        self._refused = Counter(
            "delayline_access_keys_refused",
            "Keys presented that are not known, or have ended",
            registry=registry,
        )
        self._over = Counter(
            "delayline_access_sessions_refused",
            "Requests with the cookie of a session that is over, or was never begun here",
            registry=registry,
        )

    @property
    def rules(self) -> AccessRules:
        return self._source.rules

    async def caller(self, scope: Scope) -> Caller:
        """Raises Refusal (401, 403, 429, 503)."""
        headers: Mapping[bytes, bytes] = scope["delayline.headers"]
        given = headers.get(b"authorization")
        if given is None:
            return self._by_cookie(scope, headers)
        if self._tokens is not None and (token := token_in(given)) is not None:
            return TokenCaller(self, self._tokens, await self._tokens.check(token))
        return Holder(self, await self._key(given, scope["delayline.address"]))

    def _by_cookie(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        """One that cannot be used is refused only where a key is needed: the page to log in is for all.
        Raises Refusal (403)."""
        found = SESSION.shown(scope, headers[b"cookie"]) if b"cookie" in headers else ()
        if not found:
            return Unknown(self._needed)
        session = self._sessions.read(found[0]) if len(found) == 1 else None
        cleared = SESSION.cleared(scope)
        if session is None or self.names_of(session) is None:
            self._over.inc()
            return Unknown(_OVER, [cleared])
        if scope["method"] not in HARMLESS:
            self._check_token(session, headers.get(b"x-csrf-token", b""))
        return SessionCaller(self, session, cleared)

    def _check_token(self, session: Session, shown: bytes) -> None:
        """Raises Refusal (403)."""
        if not hmac.compare_digest(shown, self._sessions.csrf_token(session).encode()):
            raise Refusal(FORBIDDEN, _NO_TOKEN)

    def names_of(self, session: Session) -> tuple[str, ...] | None:
        """Those of the caller; None where the session is over, or what it began with."""
        if not session.names:
            key = self._key_of(session)
            return None if key is None else (key.principal,)
        is_by = self._tokens is not None and self._sessions.is_by(session, self._tokens.marks_sessions)
        return session.names if is_by and self._sessions.goes_on(session) else None

    def _key_of(self, session: Session) -> AccessKey | None:
        """The key that began the session; None where either is over."""
        key = self._source.keys.get(session.key_id)
        if key is None or not key.works_at(self._clock.now_ms()) or not self._sessions.is_of(session, key):
            return None
        return key if self._sessions.goes_on(session) else None

    async def _key(self, given: bytes, address: str) -> AccessKey:
        digest = hashlib.blake2b(given, key=self._secret, digest_size=32).digest()
        known = self._known.get(digest)
        if known is not None:
            return self.working(known.key_id, known.hash)
        token = _token(given)
        key = self._source.keys.get(token.key_id)
        if not await self._compared(digest, token, key, address) or key is None:
            self._refused.inc()
            raise unauthenticated(_WRONG)
        self._remember(digest, _Known(key.id, key.hash))
        return self.working(key.id, key.hash)

    def working(self, key_id: str, known_hash: str) -> AccessKey:
        """The key as it is now, with the hash that was compared. Raises Refusal (401) where it has ended."""
        key = self._source.keys.get(key_id)
        if key is None or key.hash != known_hash or not key.works_at(self._clock.now_ms()):
            self._refused.inc()
            raise unauthenticated(_WRONG)
        return key

    async def _compared(self, digest: bytes, token: Token, key: AccessKey | None, address: str) -> bool:
        """Requests that present the same key meanwhile share the answer."""
        under_way = self._comparing.get(digest)
        if under_way is None:
            if len(self._comparing) >= WAITING_MAX:
                raise Refusal(LIMIT_EXCEEDED, "too many keys are being looked at", status=503)
            self._attempts.take(address)
            under_way = self._comparing[digest] = asyncio.ensure_future(self._compare(digest, token, key, address))
        return await asyncio.shield(under_way)

    async def _compare(self, digest: bytes, token: Token, key: AccessKey | None, address: str) -> bool:
        known = None if key is None else key.hash
        loop = asyncio.get_running_loop()
        try:
            matches = await loop.run_in_executor(self._threads, self._hasher.matches, token.secret, known)
        finally:
            del self._comparing[digest]
        if matches:
            self._attempts.give_back(address)
        return matches

    def _remember(self, digest: bytes, known: _Known) -> None:
        self._known[digest] = known
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]


def token_in(given: bytes) -> bytes | None:
    """What a header presents that looks like a token of an identity provider; None where it is something else. No
    key has a dot."""
    is_bearer = given[: len(_SCHEME)].lower() == _SCHEME
    return given[len(_SCHEME) :].strip() if is_bearer and b"." in given else None


def _token(given: bytes) -> Token:
    """Raises Refusal (401)."""
    if given[: len(_SCHEME)].lower() != _SCHEME:
        raise unauthenticated("the scheme here is Bearer: authorization: Bearer dlk_...")
    token = parse_token(given[len(_SCHEME) :].strip())
    if token is None:
        raise unauthenticated("this is no key: a key is dlk_, its id of 16 characters, _ and its secret")
    return token
