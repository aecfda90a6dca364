"""What a token is, and what may be sent as one."""

import binascii
import json
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkawire.protocol.errors import NoToken

CHARS_MAX = 64 << 10
"""Of a token. Brokers take 512 KiB in a login (sasl.server.max.receive.size)."""

OPAQUE_MS = 300_000
"""How long a token is used whose end is in neither the token nor the answer."""

LIFE_MAX_S = 366 * 86_400
"""A token with a longer life is asked for anew all the same."""

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750, b64token: nothing of it can end the message that it is in."""


@dataclass(frozen=True, slots=True)
class Token:
    """`expires_ms` is of the epoch. `principal` is what librdkafka's log calls it."""

    value: str = field(repr=False)
    expires_ms: int
    principal: str = "delayline"
    extensions: Mapping[str, str] = field(default_factory=dict)


def make_token(name: str, value: object, expires_ms: int | None, extensions: Mapping[str, str]) -> Token:
    """From what the property `name` led to. A JWT's own end counts where it comes first. Raises NoToken."""
    if not isinstance(value, str) or not value:
        raise NoToken(f"mq.properties: {name}: no token came.")
    if len(value) > CHARS_MAX or not _TOKEN.fullmatch(value):
        raise NoToken(
            f"mq.properties: {name}: what came is no token (1 to {CHARS_MAX} of A-Z a-z 0-9 - . _ ~ + /, then =)."
        )
    claims = claims_of(value)
    ends = [end for end in (expires_ms, in_ms(claims.get("exp"))) if end is not None]
    if not ends:
        raise NoToken(f"mq.properties: {name}: the life of the token is unknown, with neither expires_in nor exp.")
    principal = claims.get("sub")
    return Token(value, min(ends), principal if isinstance(principal, str) and principal else "delayline", extensions)


def claims_of(value: str) -> Mapping[str, Any]:
    """The claims of a JWT; empty where it is none. Its signature is the broker's matter."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def in_ms(seconds: object) -> int | None:
    """A number of seconds, also one in quotation marks as some endpoints write it; None for what is none."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < 20:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return None
    return int(min(max(seconds, 0), 1e12) * 1000)


def of_answer(name: str, text: bytes, now_ms: int, extensions: Mapping[str, str]) -> Token:
    """From the answer of a token endpoint (RFC 6749, section 5.1). Raises NoToken."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise NoToken(f"mq.properties: {name}: the answer is no JSON object.")
    life_ms = in_ms(answer.get("expires_in"))
    if life_ms is None and answer.get("expires_in") is not None:
        raise NoToken(f"mq.properties: {name}: expires_in is no number.")
    expires_ms = None if life_ms is None else now_ms + min(life_ms, LIFE_MAX_S * 1000)
    return make_token(name, answer.get("access_token"), expires_ms, extensions)
