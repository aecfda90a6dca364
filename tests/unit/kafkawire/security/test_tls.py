"""How connections of our own are encrypted, and by which certificate we are known."""

import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

import pytest

from delayline.errors import ConfigError
from kafkawire.security import tls
from kafkawire.security.tls import read_tls
from tests.brokers.certificates import make_certificate, make_keystore

PASSWORD = "of-the-keystore"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates `one` and `two`, `one` as PKCS#12 too, and its key with a password (`locked.key`)."""
    made = tmp_path_factory.mktemp("tls")
    for name in ("one", "two"):
        make_certificate(made, name, name)
    make_keystore(made, "one", PASSWORD)
    command = ["openssl", "rsa", "-aes256", "-passout", "pass:of-the-key", "-in", "one.key", "-out", "locked.key"]
    subprocess.run(command, cwd=made, check=True, capture_output=True)
    return made


def text(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def ways(folder: Path) -> dict[str, dict[str, str]]:
    """To be known as `one`, and to trust it."""
    return {
        "files": {
            "ssl.ca.location": str(folder / "one.crt"),
            "ssl.certificate.location": str(folder / "one.crt"),
            "ssl.key.location": str(folder / "one.key"),
        },
        "one file": {"ssl.ca.location": str(folder / "one.crt"), "ssl.certificate.location": str(folder / "one.pem")},
        "PEM": {
            "ssl.ca.pem": text(folder, "one.crt"),
            "ssl.certificate.pem": text(folder, "one.crt"),
            "ssl.key.pem": text(folder, "one.key"),
        },
        "PEM with a password": {
            "ssl.ca.pem": text(folder, "one.crt"),
            "ssl.certificate.pem": text(folder, "one.crt"),
            "ssl.key.pem": text(folder, "locked.key"),
            "ssl.key.password": "of-the-key",
        },
        "PEM and a file": {
            "ssl.ca.pem": text(folder, "one.crt"),
            "ssl.certificate.pem": text(folder, "one.crt"),
            "ssl.key.location": str(folder / "one.key"),
        },
        "PKCS#12": {
            "ssl.ca.pem": text(folder, "one.crt"),
            "ssl.keystore.location": str(folder / "one.p12"),
            "ssl.keystore.password": PASSWORD,
        },
    }


def needs_cryptography(way: str) -> None:
    if way == "PKCS#12":
        pytest.importorskip("cryptography", reason="no PKCS#12: the package cryptography is not installed")


def shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """The name that the server sees in the client's certificate. Raises ssl.SSLError of the client."""
    ours, theirs = socket.socketpair()
    seen: list[str] = []

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as channel:
                subject = dict(pair for part in channel.getpeercert()["subject"] for pair in part)  # type: ignore[index]
                seen.append(subject["commonName"])
                channel.sendall(b"!")
        except OSError:
            theirs.close()

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        ours.settimeout(10)
        with client.wrap_socket(ours, server_hostname="127.0.0.1") as channel:
            channel.recv(1)
    finally:
        ours.close()
        thread.join(10)
    return seen[0]


def server(folder: Path, name: str = "one") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem")
    context.load_verify_locations(folder / "one.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("way", ["files", "one file", "PEM", "PEM with a password", "PEM and a file", "PKCS#12"])
def test_we_are_known_by_our_certificate_and_leave_no_file_behind(
    folder: Path, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_cryptography(way)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    context = read_tls(ways(folder)[way])
    assert list(tmp_path.iterdir()) == []
    assert shaken(context, server(folder)) == "one"
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, server(folder, "two"))


def test_a_key_in_a_file_is_for_this_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        with tls.hidden_file(b"key") as name:
            assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        assert not Path(name).exists()
    finally:
        os.umask(before)


def test_authorities_may_stand_in_a_folder(folder: Path, tmp_path: Path) -> None:
    command = ["openssl", "x509", "-in", str(folder / "one.crt"), "-noout", "-subject_hash"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (tmp_path / f"{found}.0").write_text(text(folder, "one.crt"))
    given = {**ways(folder)["files"], "ssl.ca.location": str(tmp_path)}
    assert shaken(read_tls(given), server(folder)) == "one"


def test_without_authorities_of_its_own_the_systems_are_trusted(folder: Path) -> None:
    for place in ({}, {"ssl.ca.location": "probe"}):
        with pytest.raises(ssl.SSLCertVerificationError):
            shaken(read_tls(place), server(folder))


@pytest.mark.parametrize("no", ["false", "F", "0"])
def test_verification_can_be_left_out_in_librdkafkas_words(folder: Path, no: str) -> None:
    given = {**ways(folder)["files"], "enable.ssl.certificate.verification": no}
    assert shaken(read_tls(given), server(folder, "two")) == "one"


def test_a_list_of_revoked_certificates_is_heeded(folder: Path) -> None:
    """It is nobody's, so nobody is known not to be on it."""
    make_certificate(folder, "list", "list")
    given = {**ways(folder)["files"], "ssl.crl.location": str(folder / "list.crt")}
    with pytest.raises(ssl.SSLCertVerificationError, match="CRL"):
        shaken(read_tls(given), server(folder))


def test_cipher_suites_are_those_that_are_named() -> None:
    names = {one["name"] for one in read_tls({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}).get_ciphers()}
    assert {name for name in names if not name.startswith("TLS_")} == {"ECDHE-RSA-AES256-GCM-SHA384"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ssl.ca.location": "/nowhere"}, "ssl.ca.location"),
        ({"ssl.ca.pem": "no PEM"}, "ssl.ca.pem"),
        ({"ssl.ca.pem": "nö"}, "ssl.ca.pem"),
        ({"ssl.certificate.pem": "no PEM", "ssl.key.pem": "s3cret"}, "ssl.certificate.pem and ssl.key.pem"),
        ({"ssl.certificate.pem": "x", "ssl.certificate.location": "y"}, "one of them is enough"),
        ({"ssl.certificate.pem": "x", "ssl.keystore.location": "y"}, "one of them is enough"),
        ({"ssl.key.pem": "x", "ssl.keystore.location": "y"}, "has its own key"),
        ({"ssl.certificate.pem": "x", "ssl.key.location": "y", "ssl.key.pem": "z"}, "one of them is enough"),
        ({"ssl.crl.location": "/nowhere"}, "ssl.crl.location"),
        ({"ssl.cipher.suites": "ROT13"}, "ssl.cipher.suites"),
        ({"enable.ssl.certificate.verification": "perhaps"}, "is true or false"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changed: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=r"^mq\.properties: ") as caught:
        read_tls(changed)
    assert why in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["ssl.ca.location", "ssl.crl.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"],
)
def test_a_pipe_is_refused_by_name_and_not_opened(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    certificate = {"ssl.certificate.pem": "x"} if name == "ssl.key.location" else {}
    with pytest.raises(ConfigError, match=r"mq\.properties: ssl\..*is a pipe") as caught:
        read_tls({**certificate, name: str(tmp_path / "pipe")})
    assert name in str(caught.value)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_key_whose_password_is_not_known_is_refused_and_nobody_is_asked_for_it(
    folder: Path, password: str | None
) -> None:
    given = {"ssl.certificate.pem": text(folder, "one.crt"), "ssl.key.pem": text(folder, "locked.key")}
    with pytest.raises(ConfigError, match=r"ssl\.certificate\.pem and ssl\.key\.pem"):
        read_tls({**given, **({} if password is None else {"ssl.key.password": password})})


def test_openssl_is_always_given_a_password_so_that_it_asks_nobody_for_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would ask at the terminal, and a server would wait there."""
    given: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda context, *args: given.append(args[2]))
    read_tls(ways(folder)["files"])
    assert given == [""]


@pytest.mark.parametrize(("file", "password"), [("one.p12", "wrong"), ("one.p12", ""), ("one.crt", ""), ("none", "")])
def test_a_keystore_that_cannot_be_opened_is_refused(folder: Path, file: str, password: str) -> None:
    needs_cryptography("PKCS#12")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location and ssl\.keystore\.password"):
        read_tls({"ssl.keystore.location": str(folder / file), "ssl.keystore.password": password})


def test_a_keystore_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match="needs the package cryptography"):
        read_tls({"ssl.keystore.location": "one.p12"})
