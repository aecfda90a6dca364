"""The client's side of SASL by tokens and by Kerberos, without a broker."""

import pytest

from delayline.clock import ManualClock
from kafkawire.protocol.errors import NotAuthenticated, NoToken
from kafkawire.protocol.messages.cluster import SaslAuthenticateResponse, SaslHandshakeResponse
from kafkawire.security.access import Credentials
from kafkawire.security.oauth.token import Token
from kafkawire.security.oauth.tokens import Tokens
from kafkawire.security.sasl import Asking, advance, bearer, exchange, gss, login

CLOCK = ManualClock()
FAR_MS = CLOCK.now_ms() + 3_600_000
RFC_TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
"""Of the examples in RFC 7628, section 4."""


def tokens_of(*values: str) -> Tokens:
    rest = list(values)
    return Tokens("x", lambda now_ms: Token(rest.pop(0) if len(rest) > 1 else rest[0], FAR_MS), CLOCK)


def credentials(tokens: Tokens) -> Credentials:
    return Credentials("OAUTHBEARER", tokens=tokens)


def test_a_token_is_sent_as_in_rfc_7628() -> None:
    token = Token(RFC_TOKEN, FAR_MS, extensions={"host": "server.example.com", "port": "143"})
    sent = f"n,,\x01host=server.example.com\x01port=143\x01auth=Bearer {RFC_TOKEN}\x01\x01"
    head, *pairs = bearer(token).decode().split("\x01")
    assert (head, sorted(pairs)) == ("n,,", sorted(sent.split("\x01")[1:]))


def test_a_token_that_is_taken_is_one_message() -> None:
    steps = exchange(credentials(tokens_of("abc")))
    assert next(steps) == b"n,,\x01auth=Bearer abc\x01\x01"
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_a_refusal_is_acknowledged_by_one_byte_and_reported() -> None:
    steps = exchange(credentials(tokens_of("abc")))
    next(steps)
    assert steps.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(NotAuthenticated, match="invalid_token"):
        steps.send(b"")


def test_a_token_that_the_broker_refuses_is_not_used_again_for_long() -> None:
    tokens = tokens_of("old", "new")
    steps = login(credentials(tokens), "host")
    advance(steps)
    asking = advance(steps, SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
    assert isinstance(asking, Asking)
    asking = advance(steps, SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert isinstance(asking, Asking)
    with pytest.raises(NotAuthenticated, match="no such key"):
        advance(steps, SaslAuthenticateResponse(58, "no such key"))
    assert tokens.token().value == "old"
    CLOCK.advance(10_000)
    assert tokens.token().value == "new"


def test_where_there_is_no_token_nothing_is_sent() -> None:
    def fail(now_ms: int) -> Token:
        raise NoToken("mq.properties: x: nobody is there.")

    with pytest.raises(NoToken, match="nobody"):
        next(exchange(credentials(Tokens("x", fail, CLOCK))))


# --- GSSAPI


class Spoken:
    """A context of two rounds, as Kerberos has with mutual authentication."""

    def __init__(self, offer: bytes) -> None:
        self.offer = offer
        self.heard: list[bytes | None] = []

    @property
    def complete(self) -> bool:
        return len(self.heard) == 2

    def step(self, token: bytes | None) -> bytes:
        self.heard.append(token)
        return b"AP-REQ" if token is None else b""

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped:" + message

    def unwrap(self, message: bytes) -> bytes:
        assert message == b"offer"
        return self.offer


def test_kerberos_takes_no_security_layer_as_in_rfc_4752() -> None:
    context = Spoken(b"\x07\x00\xff\xff")
    steps = gss(context)
    assert next(steps) == b"AP-REQ"
    assert steps.send(b"AP-REP") == b""
    assert steps.send(b"offer") == b"wrapped:\x01\x00\x00\x00"
    with pytest.raises(StopIteration):
        steps.send(b"")
    assert context.heard == [None, b"AP-REP"]


@pytest.mark.parametrize("offer", [b"\x06\x00\xff\xff", b"", b"\x01", b"\x01\x00\x00\x00\x00"])
def test_a_broker_that_demands_a_security_layer_is_refused(offer: bytes) -> None:
    steps = gss(Spoken(offer))
    next(steps)
    steps.send(b"AP-REP")
    with pytest.raises(NotAuthenticated, match="security layer"):
        steps.send(b"offer")
