"""Who may ask."""

import pytest

from delay_service.query.owners.signing import FRESH_MS, Signer
from delayline.clock import ManualClock

PATH, BODY = "/ask/w/find/4500", b"\x91\x01"


def signer(secret: str = "sixteen letters!", ahead_ms: int = 0) -> Signer:
    clock = ManualClock()
    clock.advance(ahead_ms)
    return Signer(secret, clock)


@pytest.mark.parametrize("ahead_ms", [0, FRESH_MS, -FRESH_MS])
def test_a_question_is_taken_from_who_has_the_secret(ahead_ms: int) -> None:
    assert signer().accepts(signer(ahead_ms=ahead_ms).sign(PATH, BODY), PATH, BODY)


@pytest.mark.parametrize("ahead_ms", [FRESH_MS + 1, -FRESH_MS - 1])
def test_a_question_that_was_signed_long_ago_is_not_taken(ahead_ms: int) -> None:
    assert not signer().accepts(signer(ahead_ms=ahead_ms).sign(PATH, BODY), PATH, BODY)


def test_what_was_signed_is_what_is_asked() -> None:
    signed = signer().sign(PATH, BODY)
    assert not signer("another secret!!").accepts(signed, PATH, BODY)
    assert not signer("").accepts(signed, PATH, BODY)
    assert not signer().accepts(signed, PATH.replace("find", "lose"), BODY)
    assert not signer().accepts(signed, PATH, BODY + b"\x00")
    moment, _, digest = signed.partition(":")
    assert not signer().accepts(f"{int(moment) + 1}:{digest}", PATH, BODY)


@pytest.mark.parametrize(
    "signature", ["", ":", "1", "Bearer x", "-1:00", "9" * 5000 + ":00", "٣:00", "1767225600000:é"]
)
def test_what_is_no_signature_is_not_taken(signature: str) -> None:
    assert not signer("").accepts(signature, PATH, BODY)


def test_a_moment_that_is_none_is_not_taken_even_where_anybody_can_sign_it() -> None:
    nobody = signer("")
    assert not nobody.accepts(f"soon:{nobody.digest('soon', PATH, BODY)}", PATH, BODY)
