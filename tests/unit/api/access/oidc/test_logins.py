"""Logins by the provider: as they are meant, and what attackers try on a browser's way there and back."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import httpx
import pytest

from api.access.oidc import logins as module
from api.access.oidc.claims import OidcClient
from tests.brokers.identity_provider import CLIENT, SECRET, Reply, new_key
from tests.unit.api.access.held import SESSION, allowing
from tests.unit.api.access.oidc.held import CALLBACK, ISSUER, PERSONS_CLIENT, Installation
from tests.unit.api.in_memory import NOW_MS, problem

REFUSED = (401, "unauthenticated")
LOGIN = "/v1/session/login"
SECRET_OF_SESSIONS = b"sixteen letters!"


class Browser:
    """One that keeps cookies, and sends them back."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.cookies: dict[str, str] = {}
        self.answer: Any = None

    def get(self, path: str, **headers: str) -> httpx.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        shown = {"cookie": cookie, **headers} if cookie else headers
        self.answer = self.installation.api.get(path, headers=shown)
        for header in self.answer.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        self.cookies = {name: value for name, value in self.cookies.items() if value}
        return self.answer

    def begin(self) -> str:
        """The provider's URL."""
        answer = self.get(LOGIN)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def back(self) -> str:
        """The path and the query with which the provider sends it back."""
        return _path(self.installation.idp.send_back(self.begin()))

    def log_in(self) -> httpx.Response:
        return self.get(self.back())

    def who(self) -> httpx.Response:
        return self.get(SESSION)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def _query(url: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}


@pytest.fixture
def installation() -> Installation:
    return Installation(session_secret=SECRET_OF_SESSIONS)


@pytest.fixture
def browser(installation: Installation) -> Browser:
    return Browser(installation)


# --- as it is meant


def test_a_person_logs_in_and_is_sent_to_the_console(installation: Installation, browser: Browser) -> None:
    answer = browser.log_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "../../")
    assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == (
        "no-referrer",
        "no-store, private",
    )
    session, login = answer.headers.get_list("set-cookie")
    assert session.startswith("delayline-session=2.")
    assert session.endswith("; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict")
    assert login == "delayline-login=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax"
    who = browser.who().json()
    assert (who["principal"], who["expires_at"]) == ("oidc:ann", "2026-01-01T12:00:00.000Z")
    installation.api.queue.ensure_topic("orders")
    headers = {
        "cookie": f"delayline-session={browser.cookies['delayline-session']}",
        "x-csrf-token": who["csrf_token"],
    }
    assert installation.api.request("POST", "/v1/topics/orders:pause", headers=headers).status_code == 200, "of ops"
    assert browser.get("/v1/topics/orders").status_code == 200


def test_the_provider_is_asked_for_a_code_with_pkce(browser: Browser) -> None:
    url = browser.begin()
    query = _query(url)
    assert url.startswith(f"{ISSUER}/authorize?")
    assert {name: query[name] for name in ("response_type", "client_id", "redirect_uri", "scope")} == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": f"http://api{CALLBACK}",
        "scope": "openid profile",
    }
    assert query["code_challenge_method"] == "S256"
    assert [len(query[name]) for name in ("state", "nonce", "code_challenge")] == [43] * 3
    cookie = browser.cookies["delayline-login"]
    assert not any(value in cookie for value in query.values())
    assert browser.answer.headers["set-cookie"].endswith("; Max-Age=600; Path=/; HttpOnly; SameSite=Lax")


def test_over_https_the_cookie_of_a_login_is_for_this_host_alone(installation: Installation) -> None:
    answer = installation.api.get(f"https://api{LOGIN}")
    assert answer.headers["set-cookie"].startswith("__Host-delayline-login=1.")
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_the_client_shows_its_secret_and_the_verifier(installation: Installation, browser: Browser) -> None:
    browser.log_in()
    ((form, authorization),) = installation.idp.forms
    pair = f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}"
    assert authorization == f"Basic {base64.b64encode(pair.encode()).decode()}"
    assert "client_secret" not in form
    assert len(form["code_verifier"]) == 43


def test_a_provider_that_takes_no_basic_authentication_gets_the_secret_in_the_form() -> None:
    installation = Installation()
    installation.idp.discovery["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    installation.read_again()
    assert Browser(installation).log_in().status_code == 303
    assert [(form["client_secret"], shown) for form, shown in installation.idp.forms] == [(SECRET, "")]


def test_a_public_client_has_no_secret() -> None:
    installation = Installation(client=OidcClient(CLIENT, PERSONS_CLIENT.redirect_url, ("openid",)))
    assert Browser(installation).log_in().status_code == 303
    assert [("client_secret" in form, shown) for form, shown in installation.idp.forms] == [(False, "")]


def test_an_endpoint_with_a_query_keeps_it(installation: Installation, browser: Browser) -> None:
    installation.idp.discovery["authorization_endpoint"] = f"{ISSUER}/authorize?p=policy"
    installation.read_again()
    assert _query(browser.begin())["p"] == "policy"


def test_what_else_the_provider_adds_to_the_way_back_is_passed_over(
    installation: Installation, browser: Browser
) -> None:
    installation.idp.back = {"authuser": "0", "redirect": "https://evil.example", "next": "//evil.example"}
    answer = browser.log_in()
    assert answer.headers["location"] == "../../"


def test_how_people_log_in_is_known_before_they_do(installation: Installation) -> None:
    assert installation.api.get(f"{SESSION}/logins").json() == {"key": True, "issuer": ISSUER}
    without = Installation(client=None)
    assert without.api.get(f"{SESSION}/logins").json() == {"key": True, "issuer": None}
    for path in (LOGIN, CALLBACK):
        assert problem(without.api.get(path)) == (404, "not-found")


# --- what comes back


def _without(name: str) -> Callable[[str], str]:
    return lambda back: "&".join(
        part for part in back.split("&") if not part.partition("?")[2].startswith(f"{name}=")
    )


def _other(name: str, value: str) -> Callable[[str], str]:
    def other(back: str) -> str:
        path, _, query = back.partition("?")
        parts = [part for part in query.split("&") if not part.startswith(f"{name}=")]
        return f"{path}?{'&'.join([*parts, f'{name}={value}'] if value else parts)}"

    return other


BACK: dict[str, Callable[[str], str]] = {
    "another state": _other("state", "A" * 43),
    "no state": _other("state", ""),
    "an empty state": lambda back: _other("state", "")(back) + "&state=",
    "another code": _other("code", "x"),
    "no code": _other("code", ""),
    "another issuer": _other("iss", "https%3A%2F%2Fevil.example"),
    "an empty issuer": lambda back: _other("iss", "")(back) + "&iss=",
    "no issuer": _other("iss", ""),
    "an error": lambda back: back + "&error=access_denied",
    "an error with markup": lambda back: back + "&error=%3Cscript%3E",
}


@pytest.mark.parametrize("name", BACK)
def test_a_browser_that_comes_back_with_something_else_is_refused(browser: Browser, name: str) -> None:
    answer = browser.get(BACK[name](browser.back()))
    assert problem(answer) == REFUSED
    assert "location" not in answer.headers
    assert "script" not in answer.json()["detail"]
    assert "delayline-session" not in browser.cookies
    is_over = not name.endswith("state")
    assert ("delayline-login" not in browser.cookies) is is_over


def test_of_two_tabs_that_log_in_the_second_one_does(browser: Browser) -> None:
    first, second = browser.back(), browser.back()
    assert problem(browser.get(first)) == REFUSED
    assert browser.get(second).status_code == 303
    assert browser.who().status_code == 200


def test_people_get_back_to_the_page_on_which_to_log_in(browser: Browser) -> None:
    answer = browser.get(BACK["an error"](browser.back()), accept="text/html,*/*;q=0.8")
    assert (answer.status_code, answer.headers["location"]) == (303, "../../#/login-failed")
    assert browser.cookies == {}


def test_a_parameter_that_comes_twice_is_refused(browser: Browser) -> None:
    assert problem(browser.get(f"{browser.back()}&state=x")) == (400, "invalid-request")


def test_the_issuer_may_be_left_out_where_the_provider_does_not_promise_it(installation: Installation) -> None:
    installation.idp.discovery["authorization_response_iss_parameter_supported"] = False
    installation.read_again()
    for change, status in ((_other("iss", ""), 303), (BACK["another issuer"], 401)):
        browser = Browser(installation)
        assert browser.get(change(browser.back())).status_code == status


def test_nobody_is_logged_in_by_the_state_of_another_browser(installation: Installation, browser: Browser) -> None:
    """Login CSRF: an attacker has a reader follow the way back of the attacker's own login."""
    attacker = Browser(installation)
    back = attacker.back()
    assert problem(browser.get(back)) == REFUSED
    browser.begin()
    assert problem(browser.get(back)) == REFUSED
    assert attacker.get(back).status_code == 303


COOKIES: dict[str, Callable[[str], str]] = {
    "none": lambda cookie: "",
    "nonsense": lambda cookie: "nonsense",
    "another seed": lambda cookie: cookie.replace(cookie[2], "A" if cookie[2] != "A" else "B", 1),
    "another time": lambda cookie: cookie.replace(str(NOW_MS), str(NOW_MS + 1)),
    "another signature": lambda cookie: cookie[:-1] + ("A" if cookie[-1] != "A" else "B"),
    "no signature": lambda cookie: cookie.rpartition(".")[0],
    "two of them": lambda cookie: f"{cookie}; delayline-login={cookie}",
    "a session": lambda cookie: cookie.replace("1.", "2.", 1),
}


@pytest.mark.parametrize("name", COOKIES)
def test_a_cookie_of_a_login_that_is_none_of_ours_is_refused(browser: Browser, name: str) -> None:
    back = browser.back()
    browser.cookies["delayline-login"] = COOKIES[name](browser.cookies["delayline-login"])
    assert problem(browser.get(back)) == REFUSED


def test_a_login_is_for_once(installation: Installation, browser: Browser) -> None:
    back = browser.back()
    kept = dict(browser.cookies)
    assert browser.get(back).status_code == 303
    for again in (back, _other("code", "another")(back)):
        browser.cookies = dict(kept)
        assert problem(browser.get(again)) == REFUSED
    assert len(installation.idp.forms) == 1, "the provider was not asked again"


def test_a_login_that_failed_is_over_too(installation: Installation, browser: Browser) -> None:
    back = browser.back()
    kept = dict(browser.cookies)
    assert problem(browser.get(_other("code", "guessed")(back))) == REFUSED
    browser.cookies = kept
    assert problem(browser.get(back)) == REFUSED


def test_a_login_takes_ten_minutes_at_most(installation: Installation, browser: Browser) -> None:
    back = browser.back()
    installation.clock.advance(module.PENDING_MS)
    assert problem(browser.get(back)) == REFUSED
    back = browser.back()
    installation.clock.advance(module.PENDING_MS - 1)
    assert browser.get(back).status_code == 303


def test_an_address_may_come_back_in_vain_ten_times(installation: Installation) -> None:
    def come_back_in_vain() -> int:
        browser = Browser(installation)
        return browser.get(_other("code", "guessed")(browser.back())).status_code

    assert [come_back_in_vain() for _ in range(12)] == [401] * 10 + [429] * 2
    again = Installation()
    assert [Browser(again).log_in().status_code for _ in range(20)] == [303] * 20


def test_what_was_never_begun_here_costs_no_try(installation: Installation) -> None:
    """Else a page of another site could have browsers use them up for all of their address."""
    statuses = [installation.api.get(f"{CALLBACK}?state=x&code=y").status_code for _ in range(20)]
    assert statuses == [401] * 20
    assert Browser(installation).log_in().status_code == 303


def test_logins_that_are_remembered_as_used_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USED_MAX", 2)
    installation = Installation()
    begun = [Browser(installation) for _ in range(4)]
    backs = [browser.back() for browser in begun]
    kept = [dict(browser.cookies) for browser in begun]
    assert [browser.get(back).status_code for browser, back in zip(begun, backs, strict=True)] == [303, 303, 303, 401]
    for browser, back, cookies in zip(begun, backs, kept, strict=True):
        browser.cookies = cookies
        assert problem(browser.get(back)) == REFUSED


# --- what the provider answers


ID_TOKENS: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "a nonce that is no text": {"nonce": 7},
    "another audience": {"aud": "delayline-api"},
    "another client among several": {"aud": [CLIENT, "other"], "azp": "other"},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": NOW_MS // 1000 - 61},
    "no end": {"exp": None},
    "no iat": {"iat": None},
    "issued tomorrow": {"iat": NOW_MS // 1000 + 86_400},
    "no principal": {"sub": None},
    "a strange principal": {"sub": "ann\n"},
    "groups of another type": {"groups": {"ops": 1}},
}


@pytest.mark.parametrize("name", ID_TOKENS)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    installation: Installation, browser: Browser, name: str
) -> None:
    installation.idp.claims = ID_TOKENS[name]
    assert problem(browser.log_in()) == REFUSED
    assert browser.cookies == {}


def test_an_id_token_that_another_key_has_signed_is_refused(installation: Installation, browser: Browser) -> None:
    installation.idp.signs_with = ("RS256", new_key("RS256"))
    assert problem(browser.log_in()) == REFUSED


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(400, b'{"error":"invalid_grant"}'), 401),
        (Reply(302, b"", "http://127.0.0.1:1/"), 401),
        (Reply(500), 503),
        (Reply(200, b"{}"), 401),
        (Reply(200, b"<html>"), 401),
        (Reply(200, b'{"id_token":7}'), 401),
        (Reply(200, b'{"id_token":"a.b.c"}'), 401),
        (Reply(200, '{"id_token":"\u00e4"}'.encode()), 401),
    ],
)
def test_an_answer_without_an_id_token_logs_nobody_in(
    installation: Installation, browser: Browser, reply: Reply, status: int
) -> None:
    installation.idp.replies["/token"] = reply
    answer = browser.log_in()
    assert answer.status_code == status
    assert ("does not take the code" in answer.json()["detail"]) == (reply.status in (302, 400))
    assert browser.cookies == {}


def test_a_provider_that_is_down_is_a_503_on_the_way_there_and_back(
    installation: Installation, browser: Browser
) -> None:
    down = Installation(is_down=True)
    assert problem(down.api.get(LOGIN)) == (503, "not-ready")
    back = browser.back()
    installation.idp.is_down = True
    assert problem(browser.get(back)) == (503, "not-ready")


# --- sessions


def test_a_session_lasts_twelve_hours_at_most() -> None:
    for lifetime_ms, lasts_ms in ((3_600_000, 3_600_000), (30 * 86_400_000, 12 * 3_600_000)):
        installation = Installation(session_lifetime_ms=lifetime_ms)
        browser = Browser(installation)
        browser.log_in()
        installation.clock.advance(lasts_ms - 1)
        assert browser.who().status_code == 200
        installation.clock.advance(1)
        assert problem(browser.who()) == REFUSED


def test_a_session_outlasts_the_id_token_and_the_provider(installation: Installation, browser: Browser) -> None:
    browser.log_in()
    installation.idp.is_down = True
    installation.clock.advance(7_200_000)
    assert browser.who().status_code == 200


def test_a_session_ends_when_the_person_logs_out(installation: Installation, browser: Browser) -> None:
    browser.log_in()
    kept = dict(browser.cookies)
    headers = {"cookie": f"delayline-session={kept['delayline-session']}"}
    token = browser.who().json()["csrf_token"]
    assert problem(installation.api.request("DELETE", SESSION, headers=headers)) == (403, "forbidden")
    answer = installation.api.request("DELETE", SESSION, headers={**headers, "x-csrf-token": token})
    assert answer.status_code == 204
    assert problem(browser.who()) == REFUSED
    other = Browser(installation)
    other.log_in()
    assert other.who().status_code == 200, "another session of the same person"


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://other.example"},
        {"client": OidcClient("another", PERSONS_CLIENT.redirect_url, ("openid",))},
        {"principal_claim": "email"},
        {"groups_claim": "roles"},
        {"session_secret": b"another secret!!"},
    ],
)
def test_sessions_end_where_the_settings_about_the_provider_change(browser: Browser, change: dict[str, Any]) -> None:
    browser.log_in()
    cookie = {"cookie": f"delayline-session={browser.cookies['delayline-session']}"}
    assert Installation(session_secret=SECRET_OF_SESSIONS).api.get(SESSION, headers=cookie).status_code == 200
    other = Installation(**{"session_secret": SECRET_OF_SESSIONS, **change})
    assert problem(other.api.get(SESSION, headers=cookie)) == REFUSED


def test_a_session_has_the_rights_of_its_names_as_the_rules_are_now(
    installation: Installation, browser: Browser
) -> None:
    browser.log_in()
    installation.api.queue.ensure_topic("orders")
    assert browser.get("/v1/topics/orders").status_code == 200
    installation.access.allow(allowing("oidc:bob", "read"))
    assert problem(browser.get("/v1/topics/orders")) == (403, "not-allowed")


def test_each_part_of_a_session_is_signed(browser: Browser) -> None:
    browser.log_in()
    value = browser.cookies["delayline-session"]
    for at in range(0, len(value), 3):
        browser.cookies["delayline-session"] = value[:at] + ("3" if value[at] != "3" else "4") + value[at + 1 :]
        assert problem(browser.who()) == REFUSED


def test_as_many_groups_as_a_cookie_holds(installation: Installation, browser: Browser) -> None:
    installation.idp.person["groups"] = [f"group-number-{number:04}" for number in range(90)]
    assert browser.log_in().status_code == 303
    assert len(browser.cookies["delayline-session"]) < 4000
    assert browser.who().status_code == 200
    installation.idp.person["groups"] = [f"group-number-{number:04}" for number in range(190)]
    answer = Browser(installation).log_in()
    assert problem(answer) == REFUSED
    assert "more groups than a cookie can hold" in answer.json()["detail"]


def test_a_token_begins_no_session(installation: Installation) -> None:
    """People log in by the provider: a session would outlast a program's token by hours."""
    headers = {"authorization": f"Bearer {installation.idp.access_token()}"}
    assert problem(installation.api.request("POST", SESSION, headers=headers)) == REFUSED
    assert problem(installation.api.request("DELETE", SESSION, headers=headers)) == (404, "not-found")


def test_an_id_token_of_the_console_is_no_credential(installation: Installation) -> None:
    token = installation.idp.token({"aud": CLIENT, "sub": "ann", "nonce": "x"})
    assert problem(installation.who(token)) == REFUSED
