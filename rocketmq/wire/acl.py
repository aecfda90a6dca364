"""Signatures of requests: Base64(HMAC-SHA1(secret, values of all ext fields in the order of their names, then the
body)).

Code and opaque are not signed; the account's name is. (`AclClientRPCHook`, `AclUtils.combineRequestContent`)
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

ACCESS_KEY, SIGNATURE, SECURITY_TOKEN = "AccessKey", "Signature", "SecurityToken"


class AclCredentials(NamedTuple):
    """An account of a broker with ACL. `security_token` is for temporary ones (STS)."""

    access_key: str
    secret_key: str
    security_token: str = ""

    def __repr__(self) -> str:
        return f"AclCredentials({self.access_key!r})"


def signed(fields: Mapping[str, str], body: bytes | memoryview, credentials: AclCredentials) -> dict[str, str]:
    """The ext fields, with account and signature among them."""
    found = {name: value for name, value in fields.items() if name != SIGNATURE}
    found[ACCESS_KEY] = credentials.access_key
    if credentials.security_token:
        found[SECURITY_TOKEN] = credentials.security_token
    found[SIGNATURE] = signature_of(found, body, credentials.secret_key)
    return found


def signature_of(fields: Mapping[str, str], body: bytes | memoryview, secret_key: str) -> str:
    """What `fields` and `body` are signed with; a signature among the fields does not count."""
    mac = hmac.new(secret_key.encode(), digestmod="sha1")
    mac.update("".join(fields[name] for name in sorted(fields) if name != SIGNATURE).encode())
    mac.update(body)
    return b64encode(mac.digest()).decode()


def is_signed_by(fields: Mapping[str, str], body: bytes | memoryview, secret_key: str) -> bool:
    """Whether the signature among the fields is the right one; compared in constant time."""
    expected = signature_of(fields, body, secret_key)
    return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode())
