"""The client's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802), OAUTHBEARER (RFC 7628, KIP-255), GSSAPI (RFC 4752).

Without I/O of its own. What it is handed may have some: a token may have to be fetched, a KDC may have to be asked.
So `advance` may block where the mechanism is one of the last two; callers with an event loop call it in a thread.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from secrets import token_hex
from typing import Any, NamedTuple

from kafkawire.protocol.errors import NotAuthenticated
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.cluster import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.security.access import GSSAPI, OAUTHBEARER, Credentials
from kafkawire.security.kerberos import Context
from kafkawire.security.oauth.token import Token


class Asking(NamedTuple):
    """A step of `login`: what to ask, and the kind of answer to hand back."""

    request: Message
    version: int
    answer: type[Message]


Login = Generator[Asking, Any, int]
"""Yields what to ask, is sent the answers, returns the session's lifetime in ms, 0 where it has none (KIP-368)."""

VERSION = 1
"""Of both requests: the first in which tokens travel in messages, and a session may have a lifetime."""


def login(credentials: Credentials, host: str) -> Login:
    """KIP-43 and KIP-152, for an open connection to this host. Raises NotAuthenticated and NoToken, out of the
    generator."""
    mechanism = credentials.mechanism
    shaken: SaslHandshakeResponse = yield Asking(SaslHandshakeRequest(mechanism), VERSION, SaslHandshakeResponse)
    if shaken.error_code:
        raise NotAuthenticated(f"the broker takes {', '.join(shaken.mechanisms)}, not {mechanism}")
    steps = exchange(credentials, host=host)
    token = next(steps)
    while True:
        request = SaslAuthenticateRequest(token)
        answer: SaslAuthenticateResponse = yield Asking(request, VERSION, SaslAuthenticateResponse)
        if answer.error_code:
            # Thrown into the mechanism and not raised here: OAUTHBEARER has to forget the token that was refused.
            steps.throw(NotAuthenticated(answer.error_message or f"error {answer.error_code}"))
        try:
            token = steps.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer.session_lifetime_ms


def advance(steps: Login, answer: Message | None = None) -> Asking | int:
    """What to ask next, once the last question was answered; the session's lifetime (ms) where nothing is left to
    ask. Raises what the login raises."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        lifetime_ms: int = done.value
        return lifetime_ms


Exchange = Generator[bytes, bytes, None]
"""Yields what to send, is sent what was answered, and ends when the server has proved what it has to."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
"""A server that asks for fewer wants our password (Kafka's own minimum), for more our processor."""

REASON_BYTES_MAX = 500
"""Of a broker's reason against a token, in our error."""

NO_LAYER = 1
"""The bit of GSSAPI's security layers that stands for none."""


def exchange(credentials: Credentials, nonce: Callable[[], str] = lambda: token_hex(16), host: str = "") -> Exchange:
    """Raises NotAuthenticated and NoToken, out of the generator."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    if credentials.mechanism == OAUTHBEARER:
        return _oauthbearer(credentials)
    if credentials.mechanism == GSSAPI:
        assert credentials.kerberos is not None, "read_access sees to it"
        return gss(credentials.kerberos.begin(host))
    return _scram(credentials, credentials.mechanism.removeprefix("SCRAM-").replace("-", "").lower(), nonce())


def _plain(credentials: Credentials) -> Exchange:
    yield b"\0" + credentials.username.encode() + b"\0" + credentials.password.encode()


def _scram(credentials: Credentials, digest: str, nonce: str) -> Exchange:
    # "=" first, or the "=" of an escaped comma would be escaped again (RFC 5802, 5.1).
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    challenge = yield b"n,," + first
    attributes = _attributes(challenge)
    try:
        salt, iterations, joint = b64decode(attributes["s"], validate=True), int(attributes["i"]), attributes["r"]
    except (KeyError, ValueError) as error:
        raise NotAuthenticated("the broker's SCRAM challenge cannot be read") from error
    # A nonce that does not begin with ours is a replayed challenge; few iterations make the password guessable.
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
    # The server proves that it knows the password, too: without this check anyone could pose as the broker.
    if not hmac.compare_digest(_attributes(final).get("v", ""), b64encode(expected).decode()):
        raise NotAuthenticated("the broker does not know the password")


def _oauthbearer(credentials: Credentials) -> Exchange:
    """The server answers nothing where it takes the token. Otherwise it sends the reason in JSON, and ends the
    exchange when it has heard one byte (RFC 7628, section 3.2.3)."""
    assert credentials.tokens is not None, "read_access sees to it"
    token = credentials.tokens.token()
    try:
        reason = yield bearer(token)
        if reason:
            yield b"\x01"
            raise NotAuthenticated(f"the broker does not take the token: {reason[:REASON_BYTES_MAX]!r}")
    except NotAuthenticated:
        credentials.tokens.refused(token)
        raise


def bearer(token: Token) -> bytes:
    """The client's first message. Neither a token nor an extension holds the byte that ends each part."""
    parts = ["n,,", f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in token.extensions.items())]
    return "".join(f"{part}\x01" for part in [*parts, ""]).encode()


def gss(context: Context) -> Exchange:
    """RFC 4752: when both sides have proved who they are the server offers layers of security, and we take none: it
    is TLS that encrypts."""
    answer = yield context.step(None)
    while not context.complete:
        answer = yield context.step(answer)
    offer = context.unwrap(answer)
    if len(offer) != 4 or not offer[0] & NO_LAYER:
        raise NotAuthenticated("the broker demands a security layer of GSSAPI: use security.protocol = sasl_ssl")
    yield context.wrap(bytes((NO_LAYER, 0, 0, 0)))


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError as error:
        raise NotAuthenticated("the broker's SCRAM message is not text") from error
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}
