"""Tokens from a file, from a command, and unsecured ones for tests."""

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delayline.clock import Clock, SystemClock
from delayline.process.commands import CommandFailed, output_of
from delayline.process.links import refuse_irregular
from kafkawire.protocol.errors import NoToken
from kafkawire.security.oauth.token import CHARS_MAX, OPAQUE_MS, Token, claims_of, make_token, of_answer

FILE = "delayline.oauthbearer.token.file"
COMMAND = "delayline.oauthbearer.token.command"
UNSECURED = "sasl.oauthbearer.config"

RUN_S = 10.0
"""For a command, and everything that it has started."""
OUTPUT_BYTES_MAX = CHARS_MAX + (8 << 10)
"""Of a token with what may stand around it."""


@dataclass(frozen=True, slots=True)
class FromFile:
    """The token is all that the file holds, but for white space around it. It is read anew each time."""

    path: str
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, now_ms: int) -> Token:
        """Raises NoToken."""
        try:
            with open(self.path, "rb", opener=_open) as file:
                text = file.read(OUTPUT_BYTES_MAX + 1)
        except OSError as error:
            raise NoToken(f"mq.properties: {FILE}: {error.strerror or 'it cannot be read'}.") from None
        return _bare(FILE, text, now_ms, self.extensions)


def _open(path: str, flags: int) -> int:
    """Raises OSError for what is no file: to open a pipe would wait for ever."""
    refuse_irregular(Path(path))
    return os.open(path, flags | os.O_NONBLOCK)


@dataclass(frozen=True, slots=True)
class FromCommand:
    """Runs it without a shell. It prints a token, or the JSON of a token endpoint (`access_token`, `expires_in`);
    what it writes to its standard error is thrown away, as it may hold a secret."""

    words: Sequence[str] = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    def __call__(self, now_ms: int) -> Token:
        """Raises NoToken."""
        text = self._output()
        if text.lstrip().startswith(b"{"):
            return of_answer(COMMAND, text, now_ms, self.extensions)
        return _bare(COMMAND, text, now_ms, self.extensions)

    def _output(self) -> bytes:
        try:
            return output_of(self.words, seconds=RUN_S, bytes_max=OUTPUT_BYTES_MAX, clock=self.clock)
        except CommandFailed as error:
            raise NoToken(f"mq.properties: {COMMAND}: {error}; run it by hand to see why.") from None


@dataclass(frozen=True, slots=True)
class Unsecured:
    """Unsigned: librdkafka's `sasl.oauthbearer.config`, for brokers that tests start."""

    claims: Mapping[str, Any]
    life_s: int
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, now_ms: int) -> Token:
        now_s = now_ms / 1000
        claims = {**self.claims, "iat": now_s, "exp": now_s + self.life_s}
        head, body = (urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in ({"alg": "none"}, claims))
        return make_token(UNSECURED, f"{head.decode()}.{body.decode()}.", None, self.extensions)


def _bare(name: str, text: bytes, now_ms: int, extensions: Mapping[str, str]) -> Token:
    """A JWT contains its end; another token is used for OPAQUE_MS, then asked for again. Raises NoToken."""
    try:
        value = text.decode("ascii").strip()
    except UnicodeDecodeError:
        value = "\0"  # no token
    return make_token(name, value, None if "exp" in claims_of(value) else now_ms + OPAQUE_MS, extensions)
