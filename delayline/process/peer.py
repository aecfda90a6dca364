"""The certificate that the other end of a connection has shown, and the names in it.

Python's ssl module hands a verified certificate over as a dict, and none that was not verified.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_KEYWORDS = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The types with a short name in RFC 4514, 3; others keep OpenSSL's long name, or their OID. No long name is one of
these, so two types never have the same."""

_ESCAPED = re.compile(r'["+,;<>\\]|\A[ #]| \Z')

Rdn = Sequence[tuple[str, str]]
"""Types and values that belong together; mostly one."""


class PeerCertificate(NamedTuple):
    """`subject` is as `rfc4514` writes it, `uris` are those of its alternative names. It holds until `ends_ms`."""

    subject: str
    uris: tuple[str, ...]
    ends_ms: int


def peer_certificate(transport: asyncio.BaseTransport) -> PeerCertificate | None:
    """None where the other end has shown none, where none was asked for, and without TLS."""
    shown = transport.get_extra_info("peercert")
    return parse_peer(shown) if shown else None


def parse_peer(shown: Mapping[str, Any]) -> PeerCertificate:
    """From what `ssl.SSLSocket.getpeercert` gives."""
    uris = tuple(value for kind, value in shown.get("subjectAltName", ()) if kind == "URI")
    return PeerCertificate(
        rfc4514(shown.get("subject", ())), uris, ssl.cert_time_to_seconds(shown["notAfter"]) * 1000
    )


def rfc4514(subject: Sequence[Rdn]) -> str:
    """A distinguished name as text (RFC 4514, 2), the last part first, such as `CN=orders,OU=shop,O=Acme`. Different
    names are different texts: what has a meaning in it is escaped in values."""
    return ",".join("+".join(map(_pair, rdn)) for rdn in subject[::-1])


def _pair(pair: tuple[str, str]) -> str:
    kind, value = pair
    return f"{_KEYWORDS.get(kind, kind)}={_escaped(value)}"


def _escaped(value: str) -> str:
    """RFC 4514, 2.4. Of its two ways to escape this takes digits: the end of a pattern, `,O=Acme`, must not match a
    comma inside a value. Also what is not printable is escaped, which would deceive a reader of logs."""
    escaped = _ESCAPED.sub(lambda found: _digits(found[0]), value)
    return "".join(one if one.isprintable() else _digits(one) for one in escaped)


def _digits(character: str) -> str:
    return "".join(f"\\{byte:02x}" for byte in character.encode())
