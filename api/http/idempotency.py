"""`Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): the sender's name for this very request.

The key and a digest of the request travel with the message. The owner of its shard decides whether the same request
was accepted before, so that it does not matter which process is asked. Here stand only those that this process has
not answered yet.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b

from starlette.requests import Request

from api.http.problems import IDEMPOTENCY_IN_FLIGHT, INVALID_REQUEST, Refusal
from delayline.schedule.terms import Idempotency

KEY_CHARS_MAX = 255
_KEY = re.compile(rb'("?)([\x21\x23-\x5b\x5d-\x7e]{1,%d})\1' % KEY_CHARS_MAX)


class IdempotencyKeys:
    """Of one process. On the event loop's thread only."""

    def __init__(self) -> None:
        self._in_flight: set[tuple[str, str]] = set()  # bounded by the requests in flight

    @staticmethod
    def of(request: Request, topic: str, body: bytes) -> Idempotency | None:
        """Raises Refusal."""
        headers: Mapping[bytes, bytes] = request.scope["delayline.headers"]
        given = headers.get(b"idempotency-key")
        if given is None:
            return None
        found = _KEY.fullmatch(given.strip())
        if found is None:
            detail = f"an idempotency-key has 1 to {KEY_CHARS_MAX} visible ASCII characters but quotes and backslash"
            raise Refusal(INVALID_REQUEST, f"{detail}; double quotes around it are optional")
        digest = blake2b(topic.encode() + b"\n" + body, digest_size=16).hexdigest()
        return Idempotency(found[2].decode(), digest)

    @contextmanager
    def taken(self, topic: str, key: Idempotency | None) -> Iterator[None]:
        """While the request is being answered. Raises Refusal where another one with this key is."""
        name = (topic, key.key) if key is not None else None
        if name in self._in_flight:
            raise Refusal(IDEMPOTENCY_IN_FLIGHT, "a request with this idempotency-key is not answered yet; ask again")
        if name is not None:
            self._in_flight.add(name)
        try:
            yield
        finally:
            if name is not None:
                self._in_flight.discard(name)
