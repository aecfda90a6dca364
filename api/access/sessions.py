"""Sessions of people: a signed cookie, exchanged for a key.

The cookie is text, and holds no secret:

    1.<key id>.<mark>.<begun, ms>.<end, ms>.<nonce>.<signature>

The mark is a digest of the key's hash, so a key that is changed ends its sessions. The signature is HMAC-SHA256
(RFC 2104) of everything before it, in base64url. The server keeps nothing of a session but that it was ended before
its time. docs/adr/0026-sessions.md has the reasons.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections import defaultdict
from typing import NamedTuple

from delayline.access.keys import AccessKey
from delayline.clock import Clock

SECRET_BYTES = 32
NONCE_BYTES = 16
ENDED_MAX = 1000
"""Sessions of one key that are remembered as ended: about 100 bytes each."""

_SIGNED = re.compile(rb"(.{1,200})\.([A-Za-z0-9_-]{43})")
_SESSION = re.compile(r"1\.([a-z2-7]{16})\.([A-Za-z0-9_-]{43})\.([0-9]{1,15})\.([0-9]{1,15})\.([A-Za-z0-9_-]{22})")


class Session(NamedTuple):
    """What a cookie holds before its signature; times are epoch milliseconds."""

    key_id: str
    mark: str
    begun_ms: int
    end_ms: int
    nonce: str

    def __str__(self) -> str:
        return f"1.{self.key_id}.{self.mark}.{self.begun_ms}.{self.end_ms}.{self.nonce}"


def _parsed(text: str) -> Session | None:
    """None for a later version: another process of the installation may have signed it."""
    found = _SESSION.fullmatch(text)
    return None if found is None else Session(found[1], found[2], int(found[3]), int(found[4]), found[5])


class _Ended:
    """The sessions of one key that were ended before their time."""

    def __init__(self) -> None:
        self._ends_ms: dict[str, int] = {}  # by nonce
        self._before_ms = 0

    def __contains__(self, session: Session) -> bool:
        return session.nonce in self._ends_ms or session.begun_ms < self._before_ms

    def add(self, session: Session, now_ms: int) -> None:
        """Where there are too many, all that began before now have ended: none may come back by being forgotten."""
        self._ends_ms[session.nonce] = session.end_ms
        if len(self._ends_ms) > ENDED_MAX:
            self._ends_ms = {nonce: end_ms for nonce, end_ms in self._ends_ms.items() if end_ms > now_ms}
        if len(self._ends_ms) > ENDED_MAX:
            self._ends_ms.clear()
            self._before_ms = now_ms + 1


class Sessions:
    """Begins sessions, and recognises them by what was signed with `secret`. For the event loop's thread."""

    def __init__(self, secret: bytes, lifetime_ms: int, clock: Clock) -> None:
        """Without a secret, one of this process alone is made up: its sessions end with it."""
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._lifetime_ms = lifetime_ms
        self._clock = clock
        self._ended: defaultdict[str, _Ended] = defaultdict(_Ended)  # by key id

    def begin(self, key: AccessKey) -> Session:
        """A new one, with a nonce that no client has chosen. It ends with its key at the latest."""
        now_ms = self._clock.now_ms()
        end_ms = now_ms + self._lifetime_ms
        end_ms = end_ms if key.expires_ms is None else min(end_ms, key.expires_ms)
        return Session(key.id, self._mark(key), now_ms, end_ms, secrets.token_urlsafe(NONCE_BYTES))

    def cookie(self, session: Session) -> str:
        return f"{session}.{self._digest('session', str(session))}"

    def read(self, cookie: bytes) -> Session | None:
        """The session that the cookie was made for. None where we have not signed it, or it is over."""
        signed = _SIGNED.fullmatch(cookie)
        if signed is None:
            return None
        text, signature = signed[1].decode("latin-1"), signed[2].decode()
        if not hmac.compare_digest(signature, self._digest("session", text)):
            return None
        session = _parsed(text)
        return session if session is not None and self.goes_on(session) else None

    def goes_on(self, session: Session) -> bool:
        """Whether it is not over; a lifetime that was made shorter counts for sessions that are there already."""
        now_ms = self._clock.now_ms()
        is_over = now_ms >= min(session.end_ms, session.begun_ms + self._lifetime_ms)
        return not is_over and (session.key_id not in self._ended or session not in self._ended[session.key_id])

    def is_of(self, session: Session, key: AccessKey) -> bool:
        """Whether this very key began it, and not another one with its id."""
        return key.id == session.key_id and hmac.compare_digest(session.mark, self._mark(key))

    def csrf_token(self, session: Session) -> str:
        """What a page of ours shows with a request that changes something, and a page of another site cannot read."""
        return self._digest("csrf", session.nonce)

    def end(self, session: Session) -> None:
        """It is refused from now on, in this process."""
        self._ended[session.key_id].add(session, self._clock.now_ms())

    def _mark(self, key: AccessKey) -> str:
        return self._digest("mark", key.hash)

    def _digest(self, purpose: str, text: str) -> str:
        """The purpose is part of it: what is signed for one is of no use for another."""
        digest = hmac.digest(self._secret, f"delayline {purpose}\0{text}".encode(), "sha256")
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
