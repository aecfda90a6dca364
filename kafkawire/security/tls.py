"""How connections of our own to the brokers are encrypted, from properties with librdkafka's names and values.

`ssl` of Python reads a certificate with its key from files alone: what came in a property or in a PKCS#12 file is
written to one that only its owner may read, and deleted when it was read.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from delayline.errors import ConfigError
from delayline.process.links import read_file, refuse_irregular

CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
KEY = ("ssl.key.location", "ssl.key.pem")
"""Ways to give our certificate, and its key: one of each."""

TLS = frozenset(
    {
        *("ssl.ca.location", "ssl.ca.pem", "ssl.crl.location", "ssl.cipher.suites"),
        *(*CERTIFICATE, "ssl.keystore.password", *KEY, "ssl.key.password"),
        *("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
    }
)
"""The properties of encryption that are understood here."""

PROBE = "probe"
"""As a place of CA certificates: where the system has them."""

YES, NO = ("true", "t", "1"), ("false", "f", "0")


def read_tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """What checks the brokers' certificates, and shows our own where there is one. Raises ConfigError."""
    context = trusting(properties)
    with ExitStack() as stack:
        files = _shown(properties, stack)
        if files is not None:
            with translated_errors(" and ".join(name for name in (*CERTIFICATE, *KEY) if properties.get(name))):
                # without a password OpenSSL would ask for one at the terminal
                context.load_cert_chain(*files, properties.get("ssl.key.password", ""))
    return context


def trusting(properties: Mapping[str, str]) -> ssl.SSLContext:
    """What checks the brokers' certificates, and shows none. Raises ConfigError."""
    context = authorities(properties, "ssl.ca")
    if crl := properties.get("ssl.crl.location"):
        with translated_errors("ssl.crl.location"):
            refuse_irregular(Path(crl))
            context.load_verify_locations(crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if suites := properties.get("ssl.cipher.suites"):
        with translated_errors("ssl.cipher.suites"):
            context.set_ciphers(suites)
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if not yes(properties, "enable.ssl.certificate.verification", default=True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def authorities(properties: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """Trusts those of PREFIX.location (a file or a folder) and PREFIX.pem, and the system's where neither is set.
    Raises ConfigError."""
    place, pem = properties.get(f"{prefix}.location") or None, properties.get(f"{prefix}.pem") or None
    if place == PROBE:
        place = None
    named = " and ".join(f"{prefix}.{one}" for one, set_ in (("location", place), ("pem", pem)) if set_)
    with translated_errors(named):
        if place is not None and Path(place).is_dir():
            return ssl.create_default_context(capath=place, cadata=pem)
        if place is not None:
            refuse_irregular(Path(place))
        return ssl.create_default_context(cafile=place, cadata=pem)


def yes(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Raises ConfigError for what is neither."""
    value = properties.get(name, YES[0] if default else NO[0]).lower()
    if value not in YES + NO:
        raise ConfigError(f"mq.properties: {name} is true or false.")
    return value in YES


@contextmanager
def translated_errors(named: str) -> Iterator[None]:
    """Around what reads the properties `named`. Raises ConfigError, which shows nothing of what they hold."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:  # the latter: PEM that is not ASCII; SSLError is an OSError
        raise ConfigError(f"mq.properties: {named}: {error}.") from None


def _shown(properties: Mapping[str, str], stack: ExitStack) -> tuple[str, str | None] | None:
    """The files of the certificate and of its key, where that is another one; those that were made for this are gone
    with the stack. Raises ConfigError."""
    certificates, keys = ([name for name in names if properties.get(name)] for names in (CERTIFICATE, KEY))
    for names in (certificates, keys):
        if len(names) > 1:
            raise ConfigError(f"mq.properties: {' and '.join(names)}: one of them is enough.")
    if not certificates:
        return None
    (name,) = certificates
    if name == "ssl.keystore.location":
        if keys:
            raise ConfigError(f"mq.properties: {name} and {keys[0]}: the keystore has its own key.")
        return stack.enter_context(hidden_file(_keystore(properties))), None
    return _file(properties, name, stack), _file(properties, keys[0], stack) if keys else None


def _file(properties: Mapping[str, str], name: str, stack: ExitStack) -> str:
    if name.endswith(".pem"):
        return stack.enter_context(hidden_file(properties[name].encode()))
    with translated_errors(name):
        refuse_irregular(Path(properties[name]))
    return properties[name]


@contextmanager
def hidden_file(content: bytes) -> Iterator[str]:
    """A file for this user alone (0600), as long as the context lasts."""
    with NamedTemporaryFile(prefix="delayline-", suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name


def _keystore(properties: Mapping[str, str]) -> bytes:
    """Certificate, chain and key of a PKCS#12 file as PEM. Raises ConfigError."""
    name = "ssl.keystore.location"
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"mq.properties: {name} needs the package cryptography ({error.name} is missing); pip installs it, or "
            "use ssl.certificate.location and ssl.key.location."
        ) from None
    with translated_errors(f"{name} and ssl.keystore.password"):
        stored = read_file(Path(properties[name]))
        password = properties.get("ssl.keystore.password", "").encode()
        key, certificate, others = pkcs12.load_key_and_certificates(stored, password or None)
        if key is None or certificate is None:
            raise ValueError("it has no key with a certificate")
        parts = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
        return b"".join([*parts, *(one.public_bytes(Encoding.PEM) for one in (certificate, *others))])
