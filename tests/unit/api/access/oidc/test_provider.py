"""The provider's keys: rotated, withdrawn, unknown, and while it is down, evil, or asked by a thousand at once."""

import asyncio
import json
from threading import Event
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from api.access.oidc import provider as module
from api.access.oidc.keys import parse_keys
from api.access.oidc.provider import AGAIN_S, KEPT_S, READ_EVERY_S
from api.access.oidc.strict import NotAccepted
from tests.brokers.identity_provider import RSA, HeldProvider, IdentityProvider, Reply
from tests.unit.api.access.oidc.held import ISSUER, Installation
from tests.unit.api.in_memory import problem

REFUSED = (401, "unauthenticated")
NOT_READY = (503, "not-ready")


@pytest.fixture
def installation() -> Installation:
    return Installation()


def test_a_key_that_comes_is_known_with_the_first_token_that_it_has_signed(installation: Installation) -> None:
    """No restart, no waiting for the next time that keys are read."""
    before = installation.idp.access_token()
    installation.idp.rotate("two", keeps=True)
    after = installation.idp.access_token()
    installation.clock.advance(int(AGAIN_S * 1000))
    with installation.provider:
        assert installation.who(after).status_code == 200
    assert installation.who(before).status_code == 200


def test_a_key_that_goes_ends_what_it_has_signed_when_keys_are_read_again(installation: Installation) -> None:
    before = installation.idp.access_token()
    assert installation.who(before).status_code == 200
    installation.idp.rotate("two")
    installation.clock.advance(int(READ_EVERY_S * 1000) - 1)
    installation.provider.look()
    assert installation.who(before).status_code == 200
    installation.clock.advance(1)
    installation.provider.look()
    assert problem(installation.who(before)) == REFUSED


def test_another_key_with_the_same_id_is_another_key(installation: Installation) -> None:
    before = installation.idp.access_token()
    assert installation.who(before).status_code == 200
    installation.idp.rotate("one", "RS256")
    installation.read_again()
    assert problem(installation.who(before)) == REFUSED


def test_a_thousand_unknown_ids_are_one_question(installation: Installation) -> None:
    idp = installation.idp
    tokens = [idp.access_token({"kid": f"k{number}"}) for number in range(1000)]
    before = len(idp.asked)
    assert {installation.who(token).status_code for token in tokens[:50]} == {401}
    assert len(idp.asked) == before, "they have just been read"
    installation.clock.advance(int(AGAIN_S * 1000))

    async def work(http: Any) -> list[int]:
        asked = (http.get("/v1/session", headers={"authorization": f"Bearer {token}"}) for token in tokens)
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    with installation.provider:
        statuses = installation.api.run(work)
    assert set(statuses) <= {401, 503, 429}
    assert len(idp.asked) == before + 2, "the discovery document, and the keys"


def test_tokens_that_wait_for_a_look_are_bounded(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    installation.clock.advance(int(AGAIN_S * 1000))
    tokens = [installation.idp.access_token({"kid": f"k{number}"}) for number in range(8)]

    async def work(http: Any) -> list[int]:
        waiting = {
            asyncio.ensure_future(http.get("/v1/session", headers={"authorization": f"Bearer {token}"}))
            for token in tokens
        }
        refused: set[asyncio.Future[Any]] = set()
        async with asyncio.timeout(20):
            while len(refused) < 5:  # they are not kept waiting
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
        installation.provider.look()
        return [answer.status_code for answer in await asyncio.gather(*refused, *waiting)]

    assert sorted(installation.api.run(work)) == [401] * 3 + [503] * 5


def test_keys_go_on_for_a_day_while_the_provider_is_down(installation: Installation) -> None:
    idp = installation.idp
    token = idp.access_token(exp=idp.now_s + 3 * 86_400)
    assert installation.who(token).status_code == 200
    idp.is_down = True
    installation.read_again()
    assert installation.api.metric("delayline_access_oidc_broken") == 1
    installation.clock.advance(int((KEPT_S - READ_EVERY_S) * 1000))
    installation.provider.look()
    assert installation.who(token).status_code == 200
    assert installation.who(idp.access_token()).status_code == 200, "one that it has not seen"
    installation.clock.advance(1)
    for shown in (token, idp.access_token()):
        answer = installation.who(shown)
        assert problem(answer) == NOT_READY
        assert answer.headers["retry-after"] == "1"
    idp.is_down = False
    installation.try_again()
    assert installation.who(token).status_code == 200
    assert installation.api.metric("delayline_access_oidc_broken") == 0


def test_without_any_keys_a_token_waits_and_a_key_does_not() -> None:
    installation = Installation(is_down=True)
    answer = installation.who(installation.idp.access_token())
    assert problem(answer) == NOT_READY
    assert answer.headers["retry-after"] == "1"
    assert installation.who(str(installation.access.tokens["ann"])).status_code == 200
    installation.idp.is_down = False
    installation.provider.look()
    assert problem(installation.who(installation.idp.access_token())) == NOT_READY, "it has just been tried"
    installation.try_again()
    assert installation.who(installation.idp.access_token()).status_code == 200


class Gate(HeldProvider):
    """A provider that answers when `open` is set."""

    def __init__(self, provider: IdentityProvider) -> None:
        super().__init__(provider)
        self.is_asked, self.open = Event(), Event()

    def get(self, url: str) -> bytes:
        self.is_asked.set()
        assert self.open.wait(20)
        return super().get(url)


def test_a_token_that_comes_while_keys_are_read_waits_for_them() -> None:
    installation = Installation(is_down=True)
    gate = installation.provider.http = Gate(installation.idp)
    installation.idp.is_down = False
    installation.clock.advance(int(AGAIN_S * 1000))
    headers = {"authorization": f"Bearer {installation.idp.access_token()}"}

    async def work(http: Any) -> int:
        asking = asyncio.ensure_future(http.get("/v1/session", headers=headers))
        await asyncio.wait([asking], timeout=0.05)
        gate.open.set()
        return (await asking).status_code

    with installation.provider:
        assert gate.is_asked.wait(20)
        assert installation.api.run(work) == 200


def test_a_provider_that_is_down_is_asked_once_in_ten_seconds() -> None:
    installation = Installation(is_down=True)
    for _ in range(100):
        installation.clock.advance(1000)
        installation.provider.look()
        installation.who(installation.idp.access_token()) if installation.clock.monotonic_s() % AGAIN_S else None
    assert len(installation.idp.asked) == 11


EVIL: dict[str, Reply | dict[str, Any]] = {
    "another issuer": {"issuer": "https://evil.example"},
    "an issuer with a slash more": {"issuer": f"{ISSUER}/"},
    "keys over plain http": {"jwks_uri": "http://id.example/keys"},
    "keys of no URL": {"jwks_uri": 7},
    "no keys of its own": {"jwks_uri": None},
    "a login over plain http": {"authorization_endpoint": "http://id.example/authorize"},
    "a login by a script": {"authorization_endpoint": "javascript:alert(1)//keys"},
    "codes over plain http": {"token_endpoint": "http://id.example/token"},
    "a redirect": Reply(302, b"", "http://127.0.0.1:1/keys"),
    "an error": Reply(500),
    "no JSON": Reply(200, b"<html>"),
    "a list": Reply(200, b"[]"),
    "no keys": Reply(200, b'{"keys":[]}'),
    "keys twice": Reply(200, b'{"keys":[],"keys":[]}'),
    "too many keys": Reply(
        200, json.dumps({"keys": [{**RSA.as_dict(private=False), "kid": f"{n}"} for n in range(101)]}).encode()
    ),
    "no set": Reply(200, b'{"keys":7}'),
}


@pytest.mark.parametrize("name", EVIL)
def test_what_the_provider_must_not_answer_changes_nothing(installation: Installation, name: str) -> None:
    token = installation.idp.access_token(exp=installation.idp.now_s + 3600)
    answer = EVIL[name]
    if isinstance(answer, dict):
        installation.idp.discovery = answer
    else:
        installation.idp.replies["/keys"] = answer
    installation.read_again()
    assert installation.api.metric("delayline_access_oidc_broken") == 1
    assert installation.who(token).status_code == 200


def test_a_url_of_keys_that_is_set_needs_no_discovery() -> None:
    installation = Installation(jwks_url="https://id.example/realms/main/keys", client=None)
    assert installation.idp.asked == ["/keys"]
    assert installation.who(installation.idp.access_token()).status_code == 200


def _jwk(key: Any, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), "kid": "one", **members}


UNUSABLE: dict[str, Any] = {
    "a secret": {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
    "for encryption": _jwk(RSA, use="enc"),
    "for signing alone": _jwk(RSA, key_ops=["sign"]),
    "short": _jwk(RSAKey.generate_key(1024, auto_kid=False)),
    "on another curve": _jwk(ECKey.generate_key("secp256k1")),
    "without a part": {"kty": "RSA", "n": "AQAB", "kid": "one"},
    "no base64": {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "one"},
    "a type that is no text": {"kty": ["RSA"], "kid": "one"},
    "a curve that is no text": {"kty": "EC", "crv": {"P-256": 1}, "kid": "one"},
    "an id that is no text": _jwk(RSA, kid=7),
    "no object": 7,
    "a symmetric key under another type": {**OctKey.generate_key(256).as_dict(), "kty": "RSA", "kid": "one"},
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_key_that_checks_no_signature_is_left_out(name: str) -> None:
    other = _jwk(ECKey.generate_key("P-256"), kid="two")
    keys = parse_keys(json.dumps({"keys": [UNUSABLE[name], other]}).encode())
    assert len(keys) == 1
    assert keys.find("two", "ES256") is not None
    assert [keys.find("one", algorithm) for algorithm in ("RS256", "ES256", "HS256", "none")] == [None] * 4
    with pytest.raises(NotAccepted):
        parse_keys(json.dumps({"keys": [UNUSABLE[name]]}).encode())


def test_a_key_for_one_algorithm_is_for_no_other() -> None:
    keys = parse_keys(json.dumps({"keys": [_jwk(RSA, alg="PS256")]}).encode())
    assert keys.find("one", "PS256") is not None
    assert keys.find("one", "RS256") is None


def test_a_token_without_an_id_needs_a_set_with_one_key_for_it() -> None:
    one = _jwk(ECKey.generate_key("P-256"))
    other = _jwk(ECKey.generate_key("P-256"), kid="two")
    assert parse_keys(json.dumps({"keys": [one, _jwk(RSA)]}).encode()).find(None, "ES256") is not None
    assert parse_keys(json.dumps({"keys": [one, other]}).encode()).find(None, "ES256") is None
