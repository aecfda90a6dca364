"""API keys: what a client presents, and what is kept of it.

A key is `dlk_<id>_<secret>`: the id names it in lists and logs, the secret has 256 random bits. The file keeps a hash
of the secret alone (argon2id, RFC 9106), so a copy of the file is of no use. It is JSON, a list of `AccessKey`.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple, Self

import msgspec

from delayline.errors import ConfigError

PREFIX = "dlk_"
_TOKEN = re.compile(rb"dlk_([a-z2-7]{16})_([A-Za-z0-9_-]{43})")
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
KEYS_MAX = 100_000

NOTE_CHARS_MAX = 200

_PRINCIPAL = r"^[A-Za-z0-9][A-Za-z0-9._@/+-]{0,127}\Z"
Principal = Annotated[str, msgspec.Meta(pattern=_PRINCIPAL)]
"""Who acts, as rules, logs and the audit have it."""


class Token(NamedTuple):
    """What a client presents, taken apart."""

    key_id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.key_id}_{self.secret}"


class AccessKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is kept of a key; times are epoch milliseconds. It works until `expires_ms`, if there is such a time."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z2-7]{16}$")]
    principal: Principal
    hash: Annotated[str, msgspec.Meta(pattern=r"^\$argon2id\$", max_length=512)]
    made_ms: int
    expires_ms: int | None = None
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS_MAX)] = ""

    def works_at(self, now_ms: int) -> bool:
        return self.expires_ms is None or now_ms < self.expires_ms


class AccessKeys:
    """The keys of an installation by their ids, in the order in which they were made."""

    def __init__(self, keys: Iterable[AccessKey]) -> None:
        self._by_id: Mapping[str, AccessKey] = {key.id: key for key in keys}

    @classmethod
    def parse(cls, data: bytes, name: str) -> Self:
        """From the content of the file `name`. Raises ConfigError: one sentence, without a hash."""
        try:
            keys = msgspec.json.decode(data, type=Annotated[list[AccessKey], msgspec.Meta(max_length=KEYS_MAX)])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name} has no list of keys: {error}.") from None
        found = cls(keys)
        if len(found._by_id) < len(keys):
            raise ConfigError(f"{name}: two keys have the same id.")
        return found

    def encoded(self) -> bytes:
        """The content of a file."""
        lines = b",\n".join(map(msgspec.json.encode, self._by_id.values()))
        return b"[\n%b\n]\n" % lines

    def get(self, key_id: str) -> AccessKey | None:
        return self._by_id.get(key_id)

    def all(self) -> list[AccessKey]:
        return list(self._by_id.values())

    def having(self, key: AccessKey) -> "AccessKeys":
        """With this one, in the place of the one with its id."""
        return AccessKeys({**self._by_id, key.id: key}.values())


def parse_token(presented: bytes) -> Token | None:
    """None for what is no key."""
    found = _TOKEN.fullmatch(presented)
    return None if found is None else Token(found[1].decode(), found[2].decode())


def new_token() -> Token:
    """With 80 random bits in its id, and 256 in its secret."""
    return Token("".join(secrets.choice(_ID_LETTERS) for _ in range(16)), secrets.token_urlsafe(32))


def is_principal(name: str) -> bool:
    """Whether it can be the name of one."""
    return re.match(_PRINCIPAL, name) is not None
