"""Hashes of secrets: argon2id (RFC 9106) with the parameters that OWASP names as its least, 19 MiB and two passes.

A secret that we have made has 256 random bits, too many to try out; the parameters are for secrets of another origin.
"""

from typing import TYPE_CHECKING

from delayline.errors import ConfigError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

_NEVER = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""The hash of nothing that is known: comparing with it takes as long as with any other."""


class Hasher:
    """Slow, about 20 ms of a processor: not for an event loop's thread. For any number of threads."""

    def __init__(self) -> None:
        """Raises ConfigError where the library is not installed."""
        self._hasher = _hasher()

    def hash(self, secret: str) -> str:
        """With a salt of its own, in the PHC string format."""
        return self._hasher.hash(secret)

    def matches(self, secret: str, known: str | None) -> bool:
        """Whether the hash `known` is of this secret. Without one it is not, and takes as long."""
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            self._hasher.verify(known or _NEVER, secret)
        except (VerificationError, InvalidHashError):
            return False
        return known is not None


def _hasher() -> "PasswordHasher":
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError as error:
        raise ConfigError("keys need the package argon2-cffi: pip install 'delayline[access]'.") from error
    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
