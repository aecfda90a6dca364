"""The client's side of SASL, without I/O: PLAIN (RFC 4616) and SCRAM (RFC 5802)."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from secrets import token_hex
from typing import Any, NamedTuple

from mq.kafka.access import Credentials
from mq.kafka.wire.errors import NotAuthenticated
from mq.kafka.wire.message import Message
from mq.kafka.wire.messages.cluster import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class Asking(NamedTuple):
    """A step of `login`: what to ask, and the kind of answer to hand back."""

    request: Message
    version: int
    answer: type[Message]


Login = Generator[Asking, Any, int]
"""Yields what to ask, is sent the answers, returns the session's lifetime in ms, 0 where it has none (KIP-368)."""

VERSION = 1
"""Of both requests: the first in which tokens travel in messages, and a session may have a lifetime."""


def login(credentials: Credentials) -> Login:
    """KIP-43 and KIP-152, for whoever has a connection. Raises NotAuthenticated, out of the generator."""
    mechanism = credentials.mechanism
    shaken: SaslHandshakeResponse = yield Asking(SaslHandshakeRequest(mechanism), VERSION, SaslHandshakeResponse)
    if shaken.error_code:
        raise NotAuthenticated(f"the broker takes {', '.join(shaken.mechanisms)}, not {mechanism}")
    steps = exchange(credentials)
    token = next(steps)
    while True:
        request = SaslAuthenticateRequest(token)
        answer: SaslAuthenticateResponse = yield Asking(request, VERSION, SaslAuthenticateResponse)
        if answer.error_code:
            raise NotAuthenticated(answer.error_message or f"error {answer.error_code}")
        try:
            token = steps.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer.session_lifetime_ms


Exchange = Generator[bytes, bytes, None]
"""Yields what to send, is sent what was answered, and ends when the server has proved what it has to."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
"""A server that asks for fewer wants our password (Kafka's own minimum), for more our processor."""


def exchange(credentials: Credentials, nonce: Callable[[], str] = lambda: token_hex(16)) -> Exchange:
    """Raises NotAuthenticated, out of the generator."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    return _scram(credentials, credentials.mechanism.removeprefix("SCRAM-").replace("-", "").lower(), nonce())


def _plain(credentials: Credentials) -> Exchange:
    yield b"\0" + credentials.username.encode() + b"\0" + credentials.password.encode()


def _scram(credentials: Credentials, digest: str, nonce: str) -> Exchange:
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    challenge = yield b"n,," + first
    said = _attributes(challenge)
    try:
        salt, iterations, joint = b64decode(said["s"], validate=True), int(said["i"]), said["r"]
    except (KeyError, ValueError) as error:
        raise NotAuthenticated("the broker's SCRAM challenge cannot be read") from error
    if not joint.startswith(nonce) or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise NotAuthenticated("the broker's SCRAM challenge is not an answer to ours")
    salted = hashlib.pbkdf2_hmac(digest, credentials.password.encode(), salt, iterations)
    last = f"c=biws,r={joint}".encode()
    signed = b",".join((first, challenge, last))
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = yield last + b",p=" + b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_attributes(final).get("v", ""), b64encode(expected).decode()):
        raise NotAuthenticated("the broker does not know the password")


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError as error:
        raise NotAuthenticated("the broker's SCRAM message is not text") from error
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}
