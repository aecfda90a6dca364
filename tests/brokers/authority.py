"""An authority of a test's own. Its certificates have the names and the end that the test needs."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LONG = timedelta(days=2)
_LOOPBACK = IPv4Address("127.0.0.1")


def name_of(common: str) -> x509.Name:
    """CN=COMMON, O=Acme."""
    parts = ((NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, common))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


class Authority:
    """Its certificate is NAME.crt of the folder, and what it has revoked NAME.crl once `publish` has been called."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.file = folder / f"{name}.crt"
        self.revocations = folder / f"{name}.crl"
        self._subject, self._key = name_of(name), ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._subject, self._key.public_key(), _LONG)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._write(self.file, own.sign(self._key, hashes.SHA256()))
        self._serials: dict[str, int] = {}
        self._revoked: list[int] = []

    def issue(
        self,
        name: str,
        subject: x509.Name | None = None,
        *uris: str,
        lasts: timedelta = _LONG,
        as_name: str = "",
    ) -> Path:
        """NAME.crt, with its key in it, for 127.0.0.1 and the URIs. Without a subject it is CN=NAME,O=Acme; one that
        lasts a negative time has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject or name_of(name), key.public_key(), lasts)
        names: list[x509.GeneralName] = [x509.IPAddress(_LOOPBACK), *map(x509.UniformResourceIdentifier, uris)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        self._serials[name] = made.serial_number
        path = self.folder / f"{as_name or name}.crt"
        self._write(path, made, key)
        return path

    def revoke(self, name: str) -> None:
        self._revoked.append(self._serials[name])

    def publish(self, lasts: timedelta = _LONG) -> Path:
        """The list of what it has revoked."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._subject)
        builder = builder.last_update(now - _LONG * 2).next_update(now + lasts)
        for serial in self._revoked:
            one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _LONG).build()
            builder = builder.add_revoked_certificate(one)
        made = builder.sign(self._key, hashes.SHA256())
        self.revocations.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return self.revocations

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lasts: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._subject).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - _LONG * 2).not_valid_after(now + lasts)

    @staticmethod
    def _write(path: Path, made: x509.Certificate, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        """The key first, if there is one."""
        pem = made.public_bytes(serialization.Encoding.PEM)
        if key is not None:
            form, no = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            pem = key.private_bytes(serialization.Encoding.PEM, form, no) + pem
        path.write_bytes(pem)

    def trusting(self, shown: Path | None = None) -> ssl.SSLContext:
        """Of a client that trusts this authority, and shows the certificate, if there is one."""
        context = ssl.create_default_context(cafile=str(self.file))
        if shown is not None:
            context.load_cert_chain(shown)
        return context
