"""Public keys of an identity provider, and signatures checked with them.

A key is found by its id, which is a key of a dictionary and nothing else, and fits one kind of algorithm. What a
token names in its header (`jku`, `x5u`, `jwk`) chooses no key, and a public key is never a secret (RFC 8725).
"""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from api.access.oidc.strict import NotAccepted, Object, read_object

warnings.simplefilter("ignore", SecurityWarning)  # `EdDSA` has a new name in RFC 9864, which providers do not use yet

KEYS_MAX = 100
RSA_BITS = range(2048, 8193)
"""Fewer are too few (RFC 7518, 3.3); more take a processor's time for each token."""

HEADER_BYTES_MAX = 8 << 10

_KINDS: Mapping[str, tuple[str, str | None]] = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""By algorithm: the one type of key, and its curve (RFC 7518, 3.1, RFC 8037, 3.1)."""

_MEMBERS: Mapping[str, tuple[type[Key], tuple[str, ...]]] = {
    "RSA": (RSAKey, ("n", "e")),
    "EC": (ECKey, ("crv", "x", "y")),
    "OKP": (OKPKey, ("crv", "x")),
}
"""By type: what makes the public key. Nothing else of a JWK is looked at but what it is for."""


class PublicKey(NamedTuple):
    """`thumbprint` (RFC 7638) names the key itself, whatever its id is; `algorithm` is the only one, where it has
    one."""

    id: str
    kind: tuple[str, str | None]
    algorithm: str | None
    thumbprint: str
    key: Any

    def fits(self, algorithm: str) -> bool:
        return _KINDS.get(algorithm) == self.kind and self.algorithm in (None, algorithm)

    def has_signed(self, token: bytes, algorithm: str) -> bool:
        """Whether the signature of the token is right. About 50 us with RSA, 100 us with ECDSA."""
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        registry.max_header_length = HEADER_BYTES_MAX
        try:
            jws.deserialize_compact(token, self.key, registry=registry)
        except (JoseError, ValueError, TypeError):
            return False
        return True


class PublicKeys:
    """The keys of a set by their ids."""

    def __init__(self, keys: Iterable[PublicKey]) -> None:
        self._by_id: defaultdict[str, list[PublicKey]] = defaultdict(list)
        for key in keys:
            self._by_id[key.id].append(key)
        self._by_id.default_factory = None
        self._all = [key for found in self._by_id.values() for key in found]
        self._thumbprints = {key.thumbprint for key in self._all}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, thumbprint: str) -> bool:
        return thumbprint in self._thumbprints

    def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The key with this id that fits the algorithm. A token may leave the id out where there is one such key."""
        fitting = [key for key in self._named(key_id) if key.fits(algorithm)]
        return fitting[0] if len(fitting) == 1 else None

    def _named(self, key_id: str | None) -> list[PublicKey]:
        return self._all if key_id is None else self._by_id.get(key_id, [])


def parse_keys(data: bytes) -> PublicKeys:
    """From a JWK Set (RFC 7517, 5). Keys of other kinds, for other uses, or that are weak, are left out.
    Raises NotAccepted where it is no set, or none is left."""
    listed = read_object(data).get("keys")
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise NotAccepted(f"it has no list of up to {KEYS_MAX} keys")
    keys = PublicKeys(key for one in listed if isinstance(one, dict) and (key := _public_key(one)) is not None)
    if not len(keys):
        raise NotAccepted("it has no public key for signatures")
    return keys


def _public_key(jwk: Object) -> PublicKey | None:
    kty, key_id, algorithm = jwk.get("kty"), jwk.get("kid", ""), jwk.get("alg")
    if not isinstance(kty, str) or kty not in _MEMBERS or not isinstance(key_id, str) or not _is_for_signatures(jwk):
        return None
    kind = (kty, None if kty == "RSA" else jwk.get("crv"))
    if kind not in _KINDS.values() or not isinstance(algorithm, str | None):
        return None
    made_by, members = _MEMBERS[kty]
    try:
        key = made_by.import_key({"kty": kty, **{name: jwk[name] for name in members}})
        if isinstance(key, RSAKey) and key.public_key.key_size not in RSA_BITS:
            return None
        return PublicKey(key_id, kind, algorithm, key.thumbprint(), key)
    except (JoseError, KeyError, ValueError, TypeError):
        return None


def _is_for_signatures(jwk: Object) -> bool:
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
