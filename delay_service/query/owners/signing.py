"""Whether a question comes from a process of this installation: HMAC-SHA256 over the moment, the path and the body.

The secret itself never travels. A replayed question is answered again: questions change nothing, and
after `FRESH_MS` not even that.
"""

import hashlib
import hmac
import re

from delayline.clock import Clock

_MOMENT = re.compile(r"[0-9]{1,16}")
FRESH_MS = 60_000
"""How far the clocks of two processes may differ, with the way of the question."""


class Signer:
    """Both ends have the same `secret`."""

    def __init__(self, secret: str, clock: Clock) -> None:
        self._secret = secret.encode()
        self._clock = clock

    def sign(self, path: str, body: bytes) -> str:
        """What the question carries: `<epoch ms>:<hex>`."""
        now_ms = str(self._clock.now_ms())
        return f"{now_ms}:{self.digest(now_ms, path, body)}"

    def accepts(self, signature: str, path: str, body: bytes) -> bool:
        signed_ms, _, digest = signature.partition(":")
        if not _MOMENT.fullmatch(signed_ms):
            return False
        same = hmac.compare_digest(digest.encode(), self.digest(signed_ms, path, body).encode())
        return same and abs(self._clock.now_ms() - int(signed_ms)) <= FRESH_MS

    def digest(self, signed_ms: str, path: str, body: bytes) -> str:
        return hmac.new(
            self._secret, b"\n".join((signed_ms.encode(), path.encode(), body)), hashlib.sha256
        ).hexdigest()
