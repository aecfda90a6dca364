"""Tokens of an identity provider: right ones, and everything that a token must not be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.access.oidc import tokens as module
from api.access.oidc.strict import TOKEN_BYTES_MAX, Parts, take_apart
from tests.brokers.identity_provider import AUDIENCE, RSA, IdentityProvider, encoded, new_key, signed
from tests.tiers import examples
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.access.oidc.held import Installation
from tests.unit.api.in_memory import NOW_MS, RECORDS, Api, problem
from tests.unit.api.stream import Stream

NOW_S = NOW_MS // 1000
_EVIL = new_key("ES256")
REFUSED = (401, "unauthenticated")


@pytest.fixture
def installation() -> Installation:
    return Installation()


@pytest.fixture
def idp(installation: Installation) -> IdentityProvider:
    return installation.idp


def test_a_token_is_a_credential_of_the_principal_that_it_names(
    installation: Installation, idp: IdentityProvider
) -> None:
    assert installation.who(idp.access_token()).json() == {
        "principal": "oidc:svc",
        "csrf_token": None,
        "expires_at": "2026-01-01T00:06:00.000Z",
    }
    assert installation.ask(idp.access_token()).status_code == 200
    assert problem(installation.ask(idp.access_token(sub="eve"))) == (403, "not-allowed")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_each_asymmetric_algorithm_is_understood(
    installation: Installation, idp: IdentityProvider, algorithm: str
) -> None:
    idp.rotate("of-it", algorithm)
    installation.read_again()
    assert installation.who(idp.access_token()).status_code == 200


def test_keys_go_on_beside_tokens(installation: Installation) -> None:
    assert installation.who(str(installation.access.tokens["ann"])).json()["principal"] == "ann"


def test_the_one_who_has_no_credential_learns_what_is_needed(installation: Installation) -> None:
    answer = installation.api.get("/v1/topics")
    assert problem(answer) == REFUSED
    assert "a key, or a token" in answer.json()["detail"]


def test_without_a_provider_a_token_is_no_key() -> None:
    answer = Api(access=HeldAccess("")).get("/v1/topics", headers={"authorization": "Bearer a.b.c"})
    assert "this is no key" in answer.json()["detail"]


Forge = Callable[[IdentityProvider], str]


def _payload(**claims: Any) -> bytes:
    return json.dumps({"aud": AUDIENCE, "sub": "svc", "exp": NOW_S + 300, **claims}).encode()


def _by(key: Any, algorithm: str, **header: Any) -> Forge:
    return lambda idp: signed(
        _payload(iss=idp.issuer), {"alg": algorithm, "kid": "one", **header}, key(idp) if callable(key) else key
    )


def _public(idp: IdentityProvider) -> bytes:
    return RSA.as_pem(private=False)


def _changed(idp: IdentityProvider) -> str:
    """Claims of another, and the signature of the first."""
    head, _, signature = idp.access_token().split(".")
    return f"{head}.{encoded(_payload(iss=idp.issuer, sub='ann')).decode()}.{signature}"


def _with(**claims: Any) -> Forge:
    return lambda idp: idp.access_token(**claims)


def _header(**header: Any) -> Forge:
    return lambda idp: idp.access_token(header)


def _text(payload: Callable[[IdentityProvider], str]) -> Forge:
    return lambda idp: idp.sign(payload(idp).encode())


def _right(idp: IdentityProvider) -> str:
    return f'"iss":"{idp.issuer}","aud":"{AUDIENCE}","exp":{NOW_S + 300}'


def _headed(header: bytes) -> Forge:
    """The claims and the signature of a right one behind another header."""
    return lambda idp: encoded(header).decode() + idp.access_token()[idp.access_token().index(".") :]


SIGNATURES: dict[str, Forge] = {
    "alg none": lambda idp: signed(_payload(iss=idp.issuer), {"alg": "none", "kid": "one"}, b""),
    "alg none with a signature": _headed(b'{"alg":"none","kid":"one"}'),
    "alg nOnE": _headed(b'{"alg":"nOnE","kid":"one"}'),
    "the public key as a secret": _by(_public, "HS256"),
    "the public key as a longer secret": _by(_public, "HS512"),
    "a secret that is guessed": _by(b"x", "HS256"),
    "a key of the attacker": _by(new_key("RS256"), "RS256"),
    "a key of another type": _by(new_key("ES256"), "ES256"),
    "a key that the header holds": lambda idp: signed(
        _payload(iss=idp.issuer),
        {"alg": "ES256", "kid": "one", "jwk": _EVIL.as_dict(private=False)},
        _EVIL,
    ),
    "a key that the header leads to": _by(new_key("ES256"), "ES256", jku="http://127.0.0.1:1/keys"),
    "a certificate that the header leads to": _by(new_key("ES256"), "ES256", x5u="http://127.0.0.1:1/crt"),
    "an id that is a path": _by(new_key("RS256"), "RS256", kid="../../../../etc/passwd"),
    "an id that is a URL": _by(new_key("RS256"), "RS256", kid="http://127.0.0.1:1/key"),
    "an id that is SQL": _by(new_key("RS256"), "RS256", kid="' OR 1=1 --"),
    "an id that is no text": _header(kid=["one"]),
    "an id that is empty": _header(kid=""),
    "an algorithm that is no text": _headed(b'{"alg":["RS256"],"kid":"one"}'),
    "an algorithm that is not set": lambda idp: signed(
        _payload(iss=idp.issuer), {"alg": "RS512", "kid": "one"}, idp.keys["one"][1]
    ),
    "crit": _header(crit=["exp"]),
    "crit that libraries know": _header(crit=["b64"], b64=True),
    "a name twice in the header": _headed(b'{"alg":"none","alg":"RS256","kid":"one"}'),
    "a header that is no object": _headed(b"[]"),
    "claims of another": _changed,
    "no signature": lambda idp: idp.access_token().rpartition(".")[0] + ".",
    "two parts": lambda idp: idp.access_token().rpartition(".")[0],
    "five parts": lambda idp: idp.access_token() + ".x.y",
    "blanks": lambda idp: idp.access_token().replace(".", ". "),
    "padding": lambda idp: idp.access_token() + "=",
}
CLAIMS: dict[str, Forge] = {
    "another issuer": _with(iss="https://id.example/realms/other"),
    "an issuer with a slash more": _with(iss="https://id.example/realms/main/"),
    "no issuer": _with(iss=None),
    "an issuer in a list": _with(iss=["https://id.example/realms/main"]),
    "another audience": _with(aud="delayline"),
    "the console's audience": _with(aud="delayline-console"),
    "no audience": _with(aud=None),
    "an empty audience": _with(aud=[]),
    "an audience that is no text": _with(aud=[AUDIENCE, 7]),
    "an audience in an object": _with(aud={AUDIENCE: 1}),
    "expired": _with(exp=NOW_S - 61),
    "just expired": _with(exp=NOW_S - 60),
    "no end": _with(exp=None),
    "an end that is text": _with(exp=str(NOW_S + 300)),
    "an end that is true": _with(exp=True),
    "an end that is negative": _with(exp=-1),
    "an end beyond all": _with(exp=1e300),
    "not yet": _with(nbf=NOW_S + 61),
    "a beginning that is text": _with(nbf="0"),
    "issued tomorrow": _with(iat=NOW_S + 86_400),
    "issued at a text": _with(iat="now"),
    "issued at true": _with(iat=True),
    "another kind": _header(typ="logout+jwt"),
    "a kind that is no text": _header(typ=7),
    "no principal": _with(sub=None),
    "an empty principal": _with(sub=""),
    "a principal that is a number": _with(sub=7),
    "a principal that is a list": _with(sub=["svc"]),
    "a principal that is an object": _with(sub={"svc": 1}),
    "a principal with a blank": _with(sub="svc ann"),
    "a principal with a line break": _with(sub="svc\nann"),
    "a principal with a line break at its end": _with(sub="svc\n"),
    "a principal with a wildcard": _with(sub="*"),
    "a principal with a zero byte": _with(sub="svc\0"),
    "a principal with a quote": _with(sub='svc"'),
    "a principal of look-alikes": _with(sub="s\u0475c"),
    "a principal that turns the line round": _with(sub="svc\u202e"),
    "a principal far too long": _with(sub="s" * 129),
    "groups that are numbers": _with(groups=[7]),
    "groups in an object": _with(groups={"ops": True}),
    "far too many groups": _with(groups=[f"g{number}" for number in range(201)]),
    "a claim twice": _text(lambda idp: f'{{{_right(idp)},"sub":"eve","sub":"svc"}}'),
    "a claim twice inside": _text(lambda idp: f'{{{_right(idp)},"sub":"svc","x":{{"a":1,"a":2}}}}'),
    "no JSON": _text(lambda idp: f"{{{_right(idp)},"),
    "no object": _text(lambda idp: "[]"),
    "NaN": _text(lambda idp: f'{{"sub":"svc",{_right(idp)},"x":NaN}}'),
    "an infinite end": _text(lambda idp: f'{{"sub":"svc","iss":"{idp.issuer}","aud":"{AUDIENCE}","exp":1e999}}'),
    "far too deep": _text(lambda idp: "[" * 9000),
    "a number without end": _text(lambda idp: f'{{"sub":"svc",{_right(idp)},"x":{"9" * 9000}}}'),
    "far too long": _with(x="x" * TOKEN_BYTES_MAX),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_token_that_no_key_of_the_provider_has_signed_is_refused(
    installation: Installation, idp: IdentityProvider, name: str
) -> None:
    token = SIGNATURES[name](idp)
    asked = len(idp.asked)
    assert problem(installation.who(token)) == REFUSED
    assert len(idp.asked) == asked, "nothing in it leads anywhere"
    assert installation.who(idp.access_token()).status_code == 200


@pytest.mark.parametrize("name", CLAIMS)
def test_a_token_that_is_signed_and_claims_what_it_must_not_is_refused(
    installation: Installation, idp: IdentityProvider, name: str
) -> None:
    assert problem(installation.who(CLAIMS[name](idp))) == REFUSED
    assert installation.api.metric("delayline_access_tokens_refused_total") == 1


TAKEN: dict[str, Forge] = {
    "several audiences": _with(aud=["x", AUDIENCE]),
    "expired within the leeway": _with(exp=NOW_S - 59),
    "an end with a fraction": _with(exp=NOW_S + 0.5),
    "not yet, within the leeway": _with(nbf=NOW_S + 60),
    "no iat": _with(iat=None),
    "an access token by its typ": _header(typ="at+JWT"),
    "no typ": _header(typ=None),
    "no id, of one key": _header(kid=None),
    "a key elsewhere that is not looked at": _header(
        jku="http://127.0.0.1:1/keys", x5u="http://127.0.0.1:1/", jwk={}
    ),
    "a principal as Kubernetes has it": _with(sub="system:serviceaccount:ns:name"),
    "a principal as Auth0 has it": _with(sub="auth0|5f7c8ec7c33c6c004bbafe82"),
    "other claims": _with(x={"a": [1, None, "\u202e"]}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_token_within_the_rules_is_taken(installation: Installation, idp: IdentityProvider, name: str) -> None:
    assert installation.who(TAKEN[name](idp)).status_code == 200


def test_an_access_token_of_rfc_9068_may_name_its_media_type(
    installation: Installation, idp: IdentityProvider
) -> None:
    assert installation.who(idp.access_token({"typ": "application/at+jwt"})).status_code == 200


def test_a_token_ends_while_it_is_in_use(installation: Installation, idp: IdentityProvider) -> None:
    token = idp.access_token()
    assert installation.who(token).status_code == 200
    installation.clock.advance(359_999)
    assert installation.who(token).status_code == 200
    installation.clock.advance(1)
    assert problem(installation.who(token)) == REFUSED


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Tokens that are taken apart from now on."""
    shown: list[bytes] = []

    def noted(token: bytes) -> Parts:
        shown.append(token)
        return take_apart(token)

    monkeypatch.setattr(f"{module.__name__}.take_apart", noted)
    return shown


def test_a_token_is_checked_once_however_often_it_is_shown(
    installation: Installation, idp: IdentityProvider, checked: list[bytes]
) -> None:
    token = idp.access_token()
    for _ in range(10):
        assert installation.who(token).status_code == 200
    assert len(checked) == 1
    head, payload, signature = token.split(".")
    other = signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")
    assert problem(installation.who(f"{head}.{payload}.{other}")) == REFUSED
    assert len(checked) == 2


def test_tokens_that_are_remembered_are_bounded(
    installation: Installation, idp: IdentityProvider, checked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWN_MAX", 2)
    tokens = [idp.access_token(jti=str(number)) for number in range(3)]
    for token in [*tokens, tokens[2], tokens[1], tokens[0]]:
        assert installation.who(token).status_code == 200
    assert [shown.decode() for shown in checked] == [*tokens, tokens[0]], "the first was forgotten"


@pytest.mark.parametrize("how", ["time", "key"])
def test_a_stream_that_is_open_ends_with_its_token(how: str) -> None:
    installation = Installation(rules=allowing("oidc:svc", "payload"))
    installation.api.queue.ensure_topic("orders")
    token = installation.idp.access_token()

    async def work(_: Any) -> bytes:
        stream = Stream(installation.api.app, RECORDS, "follow=sse", {"authorization": f"Bearer {token}"})
        await stream.block()
        if how == "time":
            installation.clock.advance(360_000)
        else:
            installation.idp.rotate("two")
            installation.read_again()
        return await stream.rest()

    assert b'"/problems/unauthenticated"' in installation.api.run(work)


# --- names


def test_groups_are_names_that_rules_have(installation: Installation, idp: IdentityProvider) -> None:
    pause = "/v1/topics/orders:pause"
    installation.api.queue.ensure_topic("orders")

    def may(**claims: Any) -> int:
        headers = {"authorization": f"Bearer {idp.access_token(**claims)}"}
        return installation.api.request("POST", pause, headers=headers).status_code

    assert may() == 403
    assert may(groups=["dev", "ops"]) == 200
    assert may(groups="ops") == 200
    assert may(groups=["oidc-group:ops", "ops\n", " ops", "o*"]) == 403
    installation.access.allow(allowing("oidc-group:o*", "control"))
    assert may(groups=["o x", "other"]) == 200
    assert may(groups=["ops\n", "ops ", "o*", "o\u0440s"]) == 403


def test_no_claim_is_a_group_where_none_is_set() -> None:
    installation = Installation(groups_claim="", rules=allowing("oidc-group:*", "read"))
    token = installation.idp.access_token(groups=["ops"])
    assert problem(installation.ask(token)) == (403, "not-allowed")


def test_a_user_cannot_be_named_as_a_key_is_nor_as_a_group() -> None:
    """Whatever the provider lets its users choose."""
    rules = "".join(allowing(name, "read") for name in ("ann", "*ann", "?*", "oidc-group:ops", "oidc*ops"))
    installation = Installation(rules=rules)
    for sub in ("ann", "-group:ops", "group:ops", "x:ops"):
        assert problem(installation.ask(installation.idp.access_token(sub=sub))) == (403, "not-allowed")
    assert installation.ask(str(installation.access.tokens["ann"])).status_code == 200


def test_the_principal_is_another_claim_where_that_is_set() -> None:
    installation = Installation(principal_claim="preferred_username")
    token = installation.idp.access_token(preferred_username="ann")
    assert installation.who(token).json()["principal"] == "oidc:ann"
    assert problem(installation.who(installation.idp.access_token())) == REFUSED


def test_the_act_log_has_the_principal(tmp_path: Path) -> None:
    installation = Installation(act_log=tmp_path / "acts")
    installation.api.queue.ensure_topic("orders")
    headers = {"authorization": f"Bearer {installation.idp.access_token(groups=['ops'])}"}
    assert installation.api.request("POST", "/v1/topics/orders:pause", headers=headers).status_code == 200
    assert {json.loads(line)["principal"] for line in (tmp_path / "acts").read_text().splitlines()} == {"oidc:svc"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_claim_of_another_type_is_an_error_of_the_server(
    installation: Installation, idp: IdentityProvider, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "sub", "groups"]))
    token = idp.token({"aud": AUDIENCE, "sub": "svc", name: data.draw(_json)})
    assert installation.who(token).status_code in (200, 401)


@given(text=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_with_dots_is_an_error_of_the_server(installation: Installation, text: str) -> None:
    assert problem(installation.who(f"{text}.e30.e30")) == REFUSED
