"""How brokers are reached: librdkafka's properties, and the client's side of SASL."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping

import pytest

from delayline.errors import ConfigError
from delayline.process.tls import read_listener
from delayline.process.watched import Watcher
from kafkawire.client.address import parse_servers
from kafkawire.protocol.errors import NotAuthenticated
from kafkawire.security.access import Credentials
from kafkawire.security.sasl import exchange
from proxy.kafka.access import Access, read_access

SCRAM = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ann", "sasl.password": "secret"}


def test_plaintext_is_the_default() -> None:
    assert read_access({}) == Access()


def test_credentials_are_read_in_librdkafkas_words() -> None:
    found = read_access({"security.protocol": "SASL_PLAINTEXT", **SCRAM})
    assert found.own.credentials == Credentials("SCRAM-SHA-256", "ann", "secret")


def test_a_clients_connection_is_encrypted_like_the_proxys_own_but_for_its_certificate() -> None:
    found = read_access({"security.protocol": "ssl"})
    assert found.own.tls is not None
    assert found.relayed_tls is not None
    assert found.relayed_tls is not found.own.tls


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "carrier pigeon"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "DIGEST-MD5"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "ann"},
        {"security.protocol": "ssl", "ssl.keystore.location": "store.p12"},
        {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"},
        {"security.protocol": "ssl", "ssl.certificate.location": "/nowhere/cert.pem"},
    ],
)
def test_what_the_proxy_would_have_to_guess_at_is_refused(properties: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"mq\.properties"):
        read_access(properties)


def test_a_listener_without_files_is_plaintext_and_with_wrong_ones_is_refused() -> None:
    assert read_listener("", "", "proxy.kafka.certfile", Watcher()) is None
    with pytest.raises(ConfigError, match=r"proxy\.kafka\.certfile"):
        read_listener("/nowhere/cert.pem", "", "proxy.kafka.certfile", Watcher())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("k1:9092", [("k1", 9092)]),
        ("k1, k2:1", [("k1", 9092), ("k2", 1)]),
        ("[::1]:9093,SSL://k3:7", [("::1", 9093), ("k3", 7)]),
    ],
)
def test_servers_are_read_as_clients_write_them(text: str, found: list[tuple[str, int]]) -> None:
    assert list(parse_servers(text)) == found


@pytest.mark.parametrize("text", ["", " , ", "k1:", "k1:nine", "k1:70000"])
def test_servers_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"mq\.bootstrap_servers"):
        parse_servers(text)


# --- SASL


def test_plain_is_one_message() -> None:
    assert list(exchange(Credentials("PLAIN", "ann", "secret"))) == [b"\0ann\0secret"]


def test_scram_speaks_as_in_rfc_7677() -> None:
    steps = exchange(Credentials("SCRAM-SHA-256", "user", "pencil"), lambda: "rOprNGfwEbeRWgbNEkqO")
    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    joint = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = steps.send(joint + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws," + joint + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        steps.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    steps = exchange(Credentials("SCRAM-SHA-512", "user", "pencil"), lambda: "abc")
    next(steps)
    steps.send(b"r=abcdef,s=" + b64encode(b"salt") + b",i=4096")
    with pytest.raises(NotAuthenticated):
        steps.send(b"v=" + b64encode(bytes(64)))


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=abcdef,s=!,i=1", b"r=other,s=c2FsdA==,i=4096", b"r=abcd,s=c2FsdA==,i=99999999", b"\xff", b"e=no"],
)
def test_scram_refuses_a_challenge_that_is_no_answer(challenge: bytes) -> None:
    steps = exchange(Credentials("SCRAM-SHA-256", "user", "pencil"), lambda: "abc")
    next(steps)
    with pytest.raises(NotAuthenticated):
        steps.send(challenge)


def test_scram_proves_the_password_to_a_server() -> None:
    """The server's side, from RFC 5802: the proof gives the client's key, whose hash the server has stored."""
    steps = exchange(Credentials("SCRAM-SHA-512", "a=b,c", "pencil"), lambda: "abc")
    first = next(steps)
    assert first == b"n,,n=a=3Db=2Cc,r=abc"
    challenge = b"r=abcdef,s=c2FsdA==,i=4096"
    final = steps.send(challenge)
    without_proof, _, proof = final.rpartition(b",p=")
    stored = hashlib.sha512(_client_key()).digest()
    signature = hmac.digest(stored, b",".join((first[3:], challenge, without_proof)), "sha512")
    assert bytes(x ^ y for x, y in zip(b64decode(proof), signature, strict=True)) == _client_key()


def _client_key() -> bytes:
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
    return hmac.digest(salted, b"Client Key", "sha512")
