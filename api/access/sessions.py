"""Sessions of people: a signed cookie, exchanged for a key, or for a login by the identity provider.

The cookie is text, and holds no secret:

    1.<key id>.<mark>.<begun, ms>.<end, ms>.<nonce>.<signature>
    2.<names>.<mark>.<begun, ms>.<end, ms>.<nonce>.<signature>

The mark is a digest of the key's hash, so a key that is changed ends its sessions. After a login by the provider the
cookie has the names that the caller has in rules (base64url, a line for each), the principal first, and the mark is a
digest of the settings about the provider. The signature is HMAC-SHA256
(RFC 2104) of everything before it, in base64url. The server keeps nothing of a session but that it was ended before
its time. docs/adr/0026-sessions.md has the reasons.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from delayline.access.keys import AccessKey
from delayline.clock import Clock

SECRET_BYTES = 32
NONCE_BYTES = 16
ENDED_MAX = 1000
"""Sessions of one key, or person, that are remembered as ended: about 100 bytes each."""

PERSON_MAX_MS = 12 * 3_600_000
"""The longest session after a login by a provider, which is not asked again meanwhile whether the person may still
log in."""
NAMES_BYTES_MAX = 2700
"""Of a session's names. In base64, with the rest, they fit the 4096 bytes that a browser keeps (RFC 6265, 6.1)."""

_SIGNED = re.compile(rb"(.{1,4000})\.([A-Za-z0-9_-]{43})")
_SESSION = re.compile(
    r"(?:1\.(?P<key>[a-z2-7]{16})|2\.(?P<names>[A-Za-z0-9_-]{1,3700}))"
    r"\.([A-Za-z0-9_-]{43})\.([0-9]{1,15})\.([0-9]{1,15})\.([A-Za-z0-9_-]{22})"
)


class Session(NamedTuple):
    """What a cookie holds before its signature; times are epoch milliseconds. It has a key's id, or names."""

    key_id: str
    mark: str
    begun_ms: int
    end_ms: int
    nonce: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        holder = f"2.{_encoded(self.names)}" if self.names else f"1.{self.key_id}"
        return f"{holder}.{self.mark}.{self.begun_ms}.{self.end_ms}.{self.nonce}"

    @property
    def owner(self) -> str:
        """The key's id, or the principal, which has a colon."""
        return self.names[0] if self.names else self.key_id


def _encoded(names: Sequence[str]) -> str:
    return urlsafe_b64encode("\n".join(names).encode()).rstrip(b"=").decode()


def _decoded(encoded: str) -> tuple[str, ...]:
    """Raises ValueError."""
    return tuple(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii").split("\n"))


def _parsed(text: str) -> Session | None:
    """None for a later version: another process of the installation may have signed it."""
    found = _SESSION.fullmatch(text)
    if found is None:
        return None
    try:
        names = () if found["names"] is None else _decoded(found["names"])
    except ValueError:
        return None
    return Session(found["key"] or "", found[3], int(found[4]), int(found[5]), found[6], names)


class EndedOnes:
    """What was ended before its time, by a nonce of each; up to `at_most`."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._ends_ms: dict[str, int] = {}  # by nonce
        self._before_ms = 0

    def has(self, nonce: str, begun_ms: int) -> bool:
        return nonce in self._ends_ms or begun_ms < self._before_ms

    def add(self, nonce: str, end_ms: int, now_ms: int) -> None:
        """Where there are too many, all that began before now have ended: none may come back by being forgotten."""
        self._ends_ms[nonce] = end_ms
        if len(self._ends_ms) > self._at_most:
            self._ends_ms = {nonce: end_ms for nonce, end_ms in self._ends_ms.items() if end_ms > now_ms}
        if len(self._ends_ms) > self._at_most:
            self._ends_ms.clear()
            self._before_ms = now_ms + 1


class Sessions:
    """Begins sessions, and recognises them by what was signed with `secret`. For the event loop's thread."""

    def __init__(self, secret: bytes, lifetime_ms: int, clock: Clock) -> None:
        """Without a secret, one of this process alone is made up: its sessions end with it."""
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._lifetime_ms = lifetime_ms
        self._clock = clock
        self._ended: defaultdict[str, EndedOnes] = defaultdict(lambda: EndedOnes(ENDED_MAX))  # by owner

    def begin(self, key: AccessKey) -> Session:
        """A new one, with a nonce that no client has chosen. It ends with its key at the latest."""
        now_ms = self._clock.now_ms()
        end_ms = now_ms + self._lifetime_ms
        end_ms = end_ms if key.expires_ms is None else min(end_ms, key.expires_ms)
        return Session(key.id, self._mark(key), now_ms, end_ms, secrets.token_urlsafe(NONCE_BYTES))

    def begin_for(self, names: tuple[str, ...], provider: str) -> Session | None:
        """The same after a login by the provider; `provider` are the settings with which it ends. None where the
        names do not fit into a cookie."""
        if sum(map(len, names)) + len(names) > NAMES_BYTES_MAX:
            return None
        now_ms = self._clock.now_ms()
        end_ms = now_ms + min(self._lifetime_ms, PERSON_MAX_MS)
        mark = self.digest("provider", provider)
        return Session("", mark, now_ms, end_ms, secrets.token_urlsafe(NONCE_BYTES), names)

    def cookie(self, session: Session) -> str:
        return f"{session}.{self.digest('session', str(session))}"

    def read(self, cookie: bytes) -> Session | None:
        """The session that the cookie was made for. None where we have not signed it, or it is over."""
        signed = _SIGNED.fullmatch(cookie)
        if signed is None:
            return None
        text, signature = signed[1].decode("latin-1"), signed[2].decode()
        if not hmac.compare_digest(signature, self.digest("session", text)):
            return None
        session = _parsed(text)
        return session if session is not None and self.goes_on(session) else None

    def goes_on(self, session: Session) -> bool:
        """Whether it is not over; a lifetime that was made shorter counts for sessions that are there already."""
        now_ms = self._clock.now_ms()
        is_over = now_ms >= min(session.end_ms, session.begun_ms + self._lifetime_ms)
        ended = self._ended.get(session.owner)
        return not is_over and (ended is None or not ended.has(session.nonce, session.begun_ms))

    def is_of(self, session: Session, key: AccessKey) -> bool:
        """Whether this very key began it, and not another one with its id."""
        return key.id == session.key_id and hmac.compare_digest(session.mark, self._mark(key))

    def is_by(self, session: Session, provider: str) -> bool:
        """Whether it began with a login by this very provider, under these settings."""
        return bool(session.names) and hmac.compare_digest(session.mark, self.digest("provider", provider))

    def csrf_token(self, session: Session) -> str:
        """What a page of ours shows with a request that changes something, and a page of another site cannot read."""
        return self.digest("csrf", session.nonce)

    def end(self, session: Session) -> None:
        """It is refused from now on, in this process."""
        self._ended[session.owner].add(session.nonce, session.end_ms, self._clock.now_ms())

    def _mark(self, key: AccessKey) -> str:
        return self.digest("mark", key.hash)

    def digest(self, purpose: str, text: str) -> str:
        """The purpose is part of it: what is signed for one is of no use for another."""
        digest = hmac.digest(self._secret, f"delayline {purpose}\0{text}".encode(), "sha256")
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
