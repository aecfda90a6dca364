"""Tokens from a file, from a command, and unsecured ones for tests."""

import json
import os
import select
import signal
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delayline.clock import Clock, SystemClock
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
_PIECE = 64 << 10


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
            process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else "it cannot be run"
            raise NoToken(f"mq.properties: {COMMAND}: {detail}.") from None
        try:
            return self._listened(process)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            process.stdout.close()
            process.wait()

    def _listened(self, process: "subprocess.Popen[bytes]") -> bytes:
        """All that it prints, when it has ended well."""
        assert process.stdout is not None
        ends_s = self.clock.monotonic_s() + RUN_S
        found = bytearray()
        waiting = select.poll()
        waiting.register(process.stdout, select.POLLIN)
        while waiting.poll(max(0, int((ends_s - self.clock.monotonic_s()) * 1000))):
            piece = os.read(process.stdout.fileno(), _PIECE)
            found += piece
            if len(found) > OUTPUT_BYTES_MAX:
                raise NoToken(f"mq.properties: {COMMAND}: it prints more than {OUTPUT_BYTES_MAX} bytes.")
            if not piece:
                self._ended(process, ends_s - self.clock.monotonic_s())
                return bytes(found)
        raise NoToken(f"mq.properties: {COMMAND}: it has not ended within {RUN_S:g} s.")

    def _ended(self, process: "subprocess.Popen[bytes]", left_s: float) -> None:
        try:
            code = process.wait(max(0.0, left_s))
        except subprocess.TimeoutExpired:
            raise NoToken(f"mq.properties: {COMMAND}: it has not ended within {RUN_S:g} s.") from None
        if code:
            how = f"it ends with exit code {code}" if code > 0 else f"it was ended by signal {-code}"
            raise NoToken(f"mq.properties: {COMMAND}: {how}; run it by hand to see why.")


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
