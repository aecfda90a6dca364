"""Who a client is by its login, and when it is that."""

import pytest

from proxy.kafka.frontend.login import ANONYMOUS, UNKNOWN, Login, claimed


@pytest.mark.parametrize(
    ("mechanism", "token", "principal"),
    [
        ("PLAIN", b"\0alice\0secret", "User:alice"),
        ("PLAIN", b"alice\0alice\0secret", "User:alice"),
        ("PLAIN", "\0zo\u00eb\0x".encode(), "User:zo\u00eb"),
        ("PLAIN", b"\0alice", UNKNOWN),
        ("PLAIN", b"\0a\0b\0c", UNKNOWN),
        ("PLAIN", b"\0\xff\0x", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc", "User:alice"),
        ("SCRAM-SHA-512", b"n,a=alice,n=alice,r=abc", "User:alice"),
        ("SCRAM-SHA-512", b"n,,n=a=2Cb=3Dc,r=abc", "User:a,b=c"),
        ("SCRAM-SHA-256", b"n,,n=id7,r=abc,tokenauth=true", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc,tokenauth=no", "User:alice"),
        ("SCRAM-SHA-256", b"y,,n=alice,r=abc", UNKNOWN),
        ("SCRAM-SHA-256", b"n=alice,r=abc", UNKNOWN),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x.y.z\x01\x01", UNKNOWN),
        ("GSSAPI", b"\0alice\0secret", UNKNOWN),
    ],
)
def test_the_principal_is_the_one_that_a_broker_makes_of_the_login(
    mechanism: str, token: bytes, principal: str
) -> None:
    assert claimed(mechanism, token) == principal


def test_a_name_counts_when_its_login_has_succeeded() -> None:
    login = Login()
    login.handshake("PLAIN")
    alice = login.authenticate(b"\0alice\0secret")
    assert login.principal == ANONYMOUS
    login.succeeded(alice)
    assert login.principal == "User:alice"


def test_the_last_message_of_a_login_belongs_to_the_name_in_the_first() -> None:
    login = Login()
    login.handshake("SCRAM-SHA-256")
    login.authenticate(b"n,,n=alice,r=abc")
    login.succeeded(login.authenticate(b"n,,n=bob,r=abc"))
    assert login.principal == "User:alice"


def test_of_logins_sent_ahead_each_answer_ends_its_own() -> None:
    login = Login()
    login.handshake("PLAIN")
    alice = login.authenticate(b"\0alice\0right")
    login.handshake("PLAIN")
    login.authenticate(b"\0bob\0wrong")
    login.succeeded(alice)
    assert login.principal == "User:alice"
