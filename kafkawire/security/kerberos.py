"""Kerberos for SASL GSSAPI, by the package `gssapi` and the system's library behind it.

The first step of a login may ask the KDC, and blocks for as long as `krb5.conf` lets it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from delayline.errors import ConfigError
from kafkawire.protocol.errors import NotAuthenticated, NoToken

SERVICE, PRINCIPAL, KEYTAB = (f"sasl.kerberos.{name}" for name in ("service.name", "principal", "keytab"))
PROPERTIES = frozenset({SERVICE, PRINCIPAL, KEYTAB})
"""Those that are read here. librdkafka has a command besides (`sasl.kerberos.kinit.cmd`) that fills the default cache
of tickets; without a keytab it is that cache that is used here."""


class Context(Protocol):
    """The client's side of a GSSAPI context (RFC 2743). Raises NotAuthenticated."""

    def step(self, token: bytes | None) -> bytes:
        """What to send next; empty where there is nothing."""

    @property
    def complete(self) -> bool:
        """Whether both sides have proved who they are."""

    def wrap(self, message: bytes) -> bytes:
        """With a checksum, and not encrypted."""

    def unwrap(self, message: bytes) -> bytes:
        """Its content, once the checksum was found to fit."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Who we are; `principal` and `keytab` empty for what is in the default cache of tickets."""

    service: str = "kafka"
    principal: str = ""
    keytab: str = ""

    def begin(self, host: str) -> Context:
        """With the broker on this host. Raises NoToken where there are no credentials."""
        import gssapi

        try:
            name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal) if self.principal else None
            store = {"client_keytab": self.keytab, "ccache": _cache(self)} if self.keytab else None
            held = gssapi.Credentials(name=name, usage="initiate", store=store)
            target = gssapi.Name(f"{self.service}@{host}", gssapi.NameType.hostbased_service)
            flags = gssapi.RequirementFlag
            wanted = flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection
            return _Context(gssapi.SecurityContext(name=target, creds=held, flags=wanted, usage="initiate"))
        except gssapi.exceptions.GSSError as error:
            raise NoToken(f"mq.properties: {PRINCIPAL}, {KEYTAB}: {error}.") from None


def _cache(kerberos: Kerberos) -> str:
    """Of tickets by a keytab: in memory, kept from one login to the next, and renewed by the library."""
    return f"MEMORY:delayline-{kerberos.principal}-{kerberos.keytab}"


class _Context:
    def __init__(self, context: Any) -> None:
        self._context = context

    def step(self, token: bytes | None) -> bytes:
        return self._call(self._context.step, token) or b""

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def wrap(self, message: bytes) -> bytes:
        return bytes(self._call(self._context.wrap, message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self._call(self._context.unwrap, message).message)

    def _call(self, what: Any, *given: Any) -> Any:
        import gssapi

        try:
            return what(*given)
        except gssapi.exceptions.GSSError as error:
            raise NotAuthenticated(f"GSSAPI: {error}") from None


def read_kerberos(properties: Mapping[str, str]) -> Kerberos:
    """Raises ConfigError where the package is missing."""
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:  # the latter: the system's library is missing
        raise ConfigError(
            f"mq.properties: sasl.mechanism GSSAPI needs the package gssapi, and MIT Kerberos ({error})."
        ) from None
    return Kerberos(properties.get(SERVICE, "kafka"), properties.get(PRINCIPAL, ""), properties.get(KEYTAB, ""))
