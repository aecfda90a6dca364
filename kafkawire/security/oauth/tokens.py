"""The source of a process's tokens."""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from delayline.clock import Clock, SystemClock
from delayline.process import logs
from kafkawire.protocol.errors import NoToken
from kafkawire.security.oauth.token import Token

USED = 0.8
"""Of a token's life, before the next one is fetched."""

AGAIN_S = 1.0
"""From a failure to the next try, while there is no token: a caller that asks sooner gets the last failure."""

RENEW_S = 10.0
"""From one try to the next while there is still a token: a file or a command may have none newer yet, and a broker
may refuse each."""

log = logs.get(__name__)

Fetch = Callable[[int], Token]
"""Given the time (epoch ms): a token. Blocks for as long as it takes; raises NoToken."""


class Tokens:
    """Keeps a token until it is time for the next. Any thread may ask; one fetches, and the others wait for it where
    there is none to go on with. `name` is the property that names the source of tokens. It can be pickled: then it
    fetches anew."""

    def __init__(self, name: str, fetch: Fetch, clock: Clock | None = None) -> None:
        self._name = name
        self._fetch = fetch
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._held: Token | None = None
        self._ends_s = self._next_s = self._fetched_s = 0.0
        self._failure = ""
        self._failed_s = float("-inf")

    def __reduce__(self) -> "tuple[type[Tokens], tuple[str, Fetch, Clock]]":
        return Tokens, (self._name, self._fetch, self._clock)

    def token(self) -> Token:
        """One that has not expired. Blocks while one is fetched; raises NoToken."""
        asked_s = self._clock.monotonic_s()
        held = self._usable(asked_s)
        # With a usable token no thread waits for the next one: one thread renews it, and the others go on.
        if held is not None and (asked_s < self._next_s or not self._lock.acquire(blocking=False)):
            return held
        if held is None:
            self._lock.acquire()
        try:
            return self._renewed(asked_s)
        finally:
            self._lock.release()

    def _renewed(self, asked_s: float) -> Token:
        now_s = self._clock.monotonic_s()
        held = self._usable(now_s)
        if held is not None and now_s < self._next_s:
            return held
        # A failure since the question was asked is its answer: each of many waiting threads would fetch again.
        if held is None and (self._failed_s >= asked_s or now_s < self._failed_s + AGAIN_S):
            raise NoToken(self._failure)
        try:
            return self._hold(self._fetch(self._clock.now_ms()))
        except NoToken as error:
            self._failed_s, self._failure = self._clock.monotonic_s(), str(error)
            self._next_s = self._failed_s + RENEW_S
            if held is None:
                raise
            log.warning("a token is not renewed yet", detail=self._failure, expires_in_s=int(self._ends_s - now_s))
            return held

    def _hold(self, token: Token) -> Token:
        """Raises NoToken where it has expired."""
        life_s = (token.expires_ms - self._clock.now_ms()) / 1000
        if life_s <= 0:
            raise NoToken(f"mq.properties: {self._name}: the token expired {abs(life_s):.0f} s ago.")
        now_s = self._clock.monotonic_s()
        self._held, self._fetched_s, self._ends_s = token, now_s, now_s + life_s
        # Tokens that live for seconds would be fetched all the time without the lower bound.
        self._next_s = now_s + max(USED * life_s, min(RENEW_S, life_s))
        return token

    def _usable(self, now_s: float) -> Token | None:
        return self._held if now_s < self._ends_s else None

    def refused(self, token: Token) -> None:
        """A broker does not take it: the next one is fetched, though not more often than every RENEW_S."""
        with self._lock:
            # Another thread may have fetched a new one since: that one has not been refused.
            if token is self._held:
                self._next_s = min(self._next_s, self._fetched_s + RENEW_S)

    def for_library(self, config: str) -> tuple[str, float, str, Mapping[str, Any]]:
        """librdkafka's callback (`oauth_cb` of confluent_kafka). Raises NoToken; the library asks again."""
        token = self.token()
        return token.value, token.expires_ms / 1000, token.principal, dict(token.extensions)
