"""Who a client is, as Kafka's brokers name it. The broker decides whether it is: a name counts once its login has
succeeded.

    PLAIN                the authentication id (RFC 4616; PlainSaslServer)
    SCRAM-SHA-256, -512  the name in the client's first message (RFC 5802; ScramSaslServer); but for a login by a
                         delegation token, which only the broker knows the owner of
    without a login      User:ANONYMOUS, as on a listener without SASL and client certificates

Of the other mechanisms the broker makes the name, by settings that are its own (the claim of a token, rules for
Kerberos' names): it is not known here. Nor is what a `principal.builder.class` of the brokers makes of a name.
"""

import re

ANONYMOUS = "User:ANONYMOUS"
UNKNOWN = "Kafka:unknown"
"""All clients whose name only the broker knows. No user of Kafka can have this name: theirs begin with `User:`."""

_SCRAM_FIRST = re.compile(rb"n,(?:a=[^,]*)?,(?:m=[^,]*,)?n=([^,]+),r=[^,]+(,.*)?", re.DOTALL)
_BY_TOKEN = re.compile(rb",tokenauth=true(?:,|\Z)")


class Login:
    """Of one connection: its requests in their order, and then the answers to them."""

    def __init__(self) -> None:
        self.principal = ANONYMOUS
        self._mechanism = ""
        self._begins = False
        self._claimed = UNKNOWN

    def handshake(self, mechanism: str) -> None:
        """A login begins, perhaps anew (KIP-368)."""
        self._mechanism = mechanism
        self._begins = True

    def authenticate(self, token: bytes) -> str:
        """Who the client is if this request, or one behind it, ends the login."""
        if self._begins:
            self._begins = False
            self._claimed = claimed(self._mechanism, token)
        return self._claimed

    def succeeded(self, principal: str) -> None:
        self.principal = principal


def claimed(mechanism: str, token: bytes) -> str:
    """The principal that the first message of a login would make of the client."""
    try:
        if mechanism == "PLAIN":
            _, name, _ = token.split(b"\0")
            return f"User:{name.decode()}"
        if mechanism.startswith("SCRAM-SHA-") and (found := _SCRAM_FIRST.fullmatch(token)) is not None:
            name = found[1].replace(b"=2C", b",").replace(b"=3D", b"=")
            return UNKNOWN if _BY_TOKEN.search(found[2] or b"") else f"User:{name.decode()}"
    except ValueError:  # no broker takes it
        return UNKNOWN
    return UNKNOWN
