"""Sessions: begun with a key, shown by a cookie, ended; and what attackers try with them."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from api.access import sessions as module
from api.access.sessions import Sessions
from delayline.access.keys import AccessKeys, new_token
from delayline.clock import ManualClock
from tests.tiers import examples
from tests.unit.api.access.held import QUICK, SESSION, HeldAccess, LoggedIn, allowing, log_in
from tests.unit.api.in_memory import MESSAGES, NOW_MS, RECORDS, Api, problem
from tests.unit.api.stream import Stream

LIFETIME_MS = 3_600_000
SECRET = b"sixteen letters!"
OVER = (401, "unauthenticated")
FORBIDDEN = (403, "forbidden")
LATER = {"value": 1, "schedule": {"delay": "1h"}}


def installation(access: HeldAccess, secret: bytes = SECRET, **settings: Any) -> Api:
    made = Api(access=access, session_secret=secret, **{"session_lifetime_ms": LIFETIME_MS, **settings})
    made.queue.ensure_topic("orders")
    return made


@pytest.fixture
def access() -> HeldAccess:
    return HeldAccess(allowing("ann", "read", "send", "payload"), "ann", "bob")


@pytest.fixture
def api(access: HeldAccess) -> Api:
    return installation(access)


@pytest.fixture
def ann(api: Api, access: HeldAccess) -> LoggedIn:
    return log_in(api, access, "ann")


def who(of: Api, cookie: str, **headers: str) -> httpx.Response:
    return of.get(SESSION, headers={"cookie": cookie, **headers})


def send(of: Api, cookie: str, token: str | None) -> httpx.Response:
    return of.send(LATER, headers={"cookie": cookie, **({} if token is None else {"x-csrf-token": token})})


def is_cleared(answer: httpx.Response) -> bool:
    return answer.headers.get("set-cookie", "").startswith("delayline-session=; Max-Age=0; ")


# --- as it is meant


def test_a_key_is_exchanged_for_a_cookie_that_no_script_reads_and_no_other_site_sends(
    api: Api, access: HeldAccess
) -> None:
    answer = api.request("POST", SESSION, headers={"authorization": access.header("ann")})
    assert answer.status_code == 201
    assert answer.json()["principal"] == "ann"
    assert answer.json()["expires_at"] == "2026-01-01T01:00:00.000Z"
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith("delayline-session=1.")
    assert attributes == ["Max-Age=3600", "Path=/", "HttpOnly", "SameSite=Strict"]
    assert answer.headers["cache-control"] == "no-store"


def test_nothing_secret_is_in_the_cookie(access: HeldAccess, ann: LoggedIn) -> None:
    token, key = access.tokens["ann"], access.keys.get(access.tokens["ann"].key_id)
    assert key is not None
    for secret in (token.secret, key.hash, SECRET.decode(), ann.token):
        assert secret not in ann.cookie
        assert urlsafe_b64encode(secret.encode()).rstrip(b"=").decode() not in ann.cookie


def test_over_https_the_cookie_is_for_this_host_alone(api: Api, access: HeldAccess) -> None:
    headers = {"authorization": access.header("ann")}
    answer = api.request("POST", f"https://api{SESSION}", headers=headers)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith("__Host-delayline-session=1.")
    assert attributes == ["Max-Age=3600", "Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    assert api.get(f"https://api{SESSION}", headers={"cookie": cookie}).json()["principal"] == "ann"
    plain = cookie.removeprefix("__Host-")
    assert problem(api.get(f"https://api{SESSION}", headers={"cookie": plain})) == OVER, "another host can set it"


def test_a_session_shows_who_it_is_of_and_until_when(api: Api, ann: LoggedIn) -> None:
    answer = who(api, f"theme=dark; {ann.cookie}; other=1")
    assert answer.json() == {
        "principal": "ann",
        "csrf_token": ann.token,
        "expires_at": "2026-01-01T01:00:00.000Z",
    }


def test_no_cache_that_is_shared_keeps_an_answer_to_a_session(api: Api, ann: LoggedIn) -> None:
    assert api.get("/v1/topics", headers={"cookie": ann.cookie}).headers["cache-control"] == "private"
    assert who(api, ann.cookie).headers["cache-control"] == "no-store, private"


def test_a_key_shows_who_it_is_of_without_a_token(api: Api, access: HeldAccess) -> None:
    access.add("carol", NOW_MS + 60_000)
    for principal, end in (("ann", None), ("carol", "2026-01-01T00:01:00.000Z")):
        answer = api.get(SESSION, headers={"authorization": access.header(principal)})
        assert answer.json() == {"principal": principal, "csrf_token": None, "expires_at": end}


def test_where_no_key_is_needed_there_is_nothing_to_log_in_to() -> None:
    assert Api().get(SESSION).json()["principal"] == "anonymous"
    for method in ("POST", "DELETE"):
        assert problem(Api().request(method, SESSION)) == (400, "not-supported")


def test_a_session_has_the_rights_of_its_principal_as_they_are_now(
    api: Api, access: HeldAccess, ann: LoggedIn
) -> None:
    assert send(api, *ann).status_code == 201
    access.allow(allowing("ann", "read"))
    assert problem(send(api, *ann)) == (403, "not-allowed")


def test_with_a_key_and_a_cookie_the_key_decides(api: Api, access: HeldAccess, ann: LoggedIn) -> None:
    bob = access.header("bob")
    assert who(api, ann.cookie, authorization=bob).json()["principal"] == "bob"
    assert problem(api.send(LATER, headers={"cookie": ann.cookie, "authorization": bob})) == (403, "not-allowed")
    assert who(api, "delayline-session=nonsense", authorization=bob).status_code == 200


def test_a_session_ends_with_its_key_at_the_latest(api: Api, access: HeldAccess) -> None:
    access.add("carol", NOW_MS + 60_000)
    answer = api.request("POST", SESSION, headers={"authorization": access.header("carol")})
    assert answer.json()["expires_at"] == "2026-01-01T00:01:00.000Z"
    assert "Max-Age=60;" in answer.headers["set-cookie"]


def test_processes_with_one_secret_share_sessions(access: HeldAccess, ann: LoggedIn) -> None:
    assert send(installation(access), *ann).status_code == 201


# --- cookies that are none of ours


def _flipped(text: str, at: int) -> str:
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def _resigned(cookie: str, secret: bytes) -> str:
    """As somebody signs it who knows how, and not the secret."""
    text = cookie.partition("=")[2].rpartition(".")[0]
    digest = hmac.digest(secret, f"delayline session\0{text}".encode(), "sha256")
    return f"delayline-session={text}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _longer(cookie: str) -> str:
    """It ends a year later."""
    return cookie.replace(str(NOW_MS + LIFETIME_MS), str(NOW_MS + 365 * 86_400_000))


FORGERIES: dict[str, Callable[[str], str]] = {
    "empty": lambda cookie: "delayline-session=",
    "nonsense": lambda cookie: "delayline-session=nonsense",
    "a key": lambda cookie: f"delayline-session={new_token()}",
    "another end": _longer,
    "another nonce": lambda cookie: _flipped(cookie, cookie.rindex(".") - 1),
    "another signature": lambda cookie: _flipped(cookie, cookie.rindex(".") + 1),
    "another secret": lambda cookie: _resigned(cookie, b"another secret!!"),
    "no secret": lambda cookie: _resigned(cookie, b""),
    "no signature": lambda cookie: cookie.rpartition(".")[0],
    "an empty signature": lambda cookie: cookie.rpartition(".")[0] + ".",
    "one letter less": lambda cookie: cookie[:-1],
    "one letter more": lambda cookie: cookie + "A",
    "padding": lambda cookie: cookie + "=",
    "another version": lambda cookie: cookie.replace("=1.", "=2."),
    "no version": lambda cookie: cookie.replace("=1.", "="),
    "alg none": lambda cookie: "delayline-session=eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
    "a leading zero": lambda cookie: cookie.replace(f".{NOW_MS}.", f".0{NOW_MS}."),
    "in quotes": lambda cookie: cookie.replace("=", '="') + '"',
    "far too long": lambda cookie: cookie + "A" * 60_000,
    "many": lambda cookie: "delayline-session=x; " * 2000 + cookie,
    "twice": lambda cookie: f"{cookie}; {cookie}",
}


def test_what_re_signs_a_cookie_here_signs_as_we_do(api: Api, ann: LoggedIn) -> None:
    """Else the forgeries with another secret would be refused for another reason."""
    assert _resigned(ann.cookie, SECRET) == ann.cookie
    assert _longer(ann.cookie) != ann.cookie


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_cookie_that_is_none_of_ours_is_refused_and_cleared(api: Api, ann: LoggedIn, forge: str) -> None:
    cookie = FORGERIES[forge](ann.cookie)
    for answer in (who(api, cookie), send(api, cookie, ann.token), api.get(RECORDS, headers={"cookie": cookie})):
        assert problem(answer) == OVER
        assert is_cleared(answer)
    assert who(api, ann.cookie).status_code == 200


def test_each_part_of_a_cookie_is_signed(api: Api, ann: LoggedIn) -> None:
    start = ann.cookie.index("=") + 1
    for at in range(start, len(ann.cookie)):
        changed = ann.cookie[:at] + ("3" if ann.cookie[at] != "3" else "4") + ann.cookie[at + 1 :]
        assert problem(who(api, changed)) == OVER, changed


_pieces = st.sampled_from(["=", ";", " ", ".", '"', "delayline-session", "1", "2", "\x00", "\xe9"]) | st.text(
    st.characters(max_codepoint=255), max_size=8
)


@given(data=st.data())
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_beside_the_cookie_itself_is_a_session(api: Api, ann: LoggedIn, data: st.DataObject) -> None:
    """Cut, repeated, and put together with anything else: 401, and never an error of the server."""
    value = ann.cookie.partition("=")[2]
    pieces = st.lists(_pieces | st.sampled_from(value.split(".")) | st.just(value[:-1]), max_size=12)
    cookie = "".join(data.draw(pieces))
    answer = api.get(SESSION, headers={"cookie": cookie.encode("latin-1")})
    assert problem(answer) == OVER


def test_a_cookie_of_another_installation_is_refused(access: HeldAccess, ann: LoggedIn) -> None:
    """Also where it has the same keys, and where its secret was made up."""
    for secret in (b"another secret!!", b""):
        assert problem(who(installation(access, secret), ann.cookie)) == OVER
    assert problem(who(installation(HeldAccess(allowing("ann", "read"), "ann")), ann.cookie)) == OVER


def test_without_a_secret_each_process_makes_one_up(access: HeldAccess) -> None:
    one, other = installation(access, b""), installation(access, b"")
    ann = log_in(one, access, "ann")
    assert who(one, ann.cookie).status_code == 200
    assert problem(who(other, ann.cookie)) == OVER


def test_a_cookie_of_a_later_version_is_refused_although_it_is_signed(api: Api, ann: LoggedIn) -> None:
    """Another process of the installation is newer."""
    for later in ("=3.", "=2."):
        assert problem(who(api, _resigned(ann.cookie.replace("=1.", later), SECRET))) == OVER
    assert problem(who(api, _resigned("delayline-session=3.new.x", SECRET))) == OVER


def test_refused_cookies_are_counted(api: Api, ann: LoggedIn) -> None:
    who(api, ann.cookie)
    who(api, ann.cookie[:-1])
    assert api.metric("delayline_access_sessions_refused_total") == 1


def test_the_page_to_log_in_is_there_whatever_the_cookie_is(api: Api, access: HeldAccess, ann: LoggedIn) -> None:
    for path in ("/", "/console/app.js", "/openapi.json", "/healthz"):
        assert api.get(path, headers={"cookie": ann.cookie[:-1]}).status_code == 200
    log_in(api, access, "ann", cookie=ann.cookie[:-1])


# --- sessions that are over


def test_a_session_ends_by_itself(api: Api, ann: LoggedIn) -> None:
    api.clock.advance(LIFETIME_MS - 1)
    assert who(api, ann.cookie).status_code == 200
    api.clock.advance(1)
    answer = who(api, ann.cookie)
    assert problem(answer) == OVER
    assert is_cleared(answer)


def test_a_lifetime_that_was_made_shorter_counts_at_once(access: HeldAccess, ann: LoggedIn) -> None:
    other = installation(access, session_lifetime_ms=LIFETIME_MS // 2)
    other.clock.advance(LIFETIME_MS // 2)
    assert problem(who(other, ann.cookie)) == OVER


def _end(access: HeldAccess) -> None:
    access.end("ann", NOW_MS)


def _take_out(access: HeldAccess) -> None:
    access.keys = AccessKeys([])


def _replace(access: HeldAccess) -> None:
    """The id is that of another key."""
    key = access.keys.get(access.tokens["ann"].key_id)
    assert key is not None
    access.keys = access.keys.having(replace(key, hash=QUICK.hash("another")))


@pytest.mark.parametrize("change", [_end, _take_out, _replace])
def test_a_session_ends_with_its_key(
    api: Api, access: HeldAccess, ann: LoggedIn, change: Callable[[HeldAccess], None]
) -> None:
    change(access)
    for answer in (who(api, ann.cookie), send(api, *ann), send(api, ann.cookie, None)):
        assert problem(answer) == OVER
        assert is_cleared(answer)


def test_a_session_that_was_ended_is_refused_when_its_cookie_comes_again(
    api: Api, access: HeldAccess, ann: LoggedIn
) -> None:
    other = log_in(api, access, "ann")
    answer = api.request("DELETE", SESSION, headers={"cookie": ann.cookie, "x-csrf-token": ann.token})
    assert answer.status_code == 204
    assert is_cleared(answer)
    assert problem(who(api, ann.cookie)) == OVER
    assert problem(send(api, *ann)) == OVER
    assert who(api, other.cookie).status_code == 200, "another session of the same key goes on"


def test_to_log_out_takes_a_session(api: Api, access: HeldAccess) -> None:
    answer = api.request("DELETE", SESSION, headers={"authorization": access.header("ann")})
    assert problem(answer) == (404, "not-found")


@pytest.mark.parametrize("how", ["logs out", "key ends", "time"])
def test_a_stream_that_is_open_ends_with_its_session(api: Api, access: HeldAccess, ann: LoggedIn, how: str) -> None:
    ends: dict[str, Callable[[], Any]] = {
        "key ends": lambda: access.end("ann", NOW_MS),
        "time": lambda: api.clock.advance(LIFETIME_MS),
    }

    async def work(http: httpx.AsyncClient) -> tuple[int, bytes]:
        stream = Stream(api.app, RECORDS, "follow=sse", {"cookie": ann.cookie})
        await stream.block()
        if how in ends:
            ends[how]()
        else:
            await http.delete(SESSION, headers={"cookie": ann.cookie, "x-csrf-token": ann.token})
        return stream.status, await stream.rest()

    status, rest = api.run(work)
    assert status == 200
    assert b'"/problems/unauthenticated"' in rest


def test_ended_sessions_that_are_remembered_are_bounded_and_none_comes_back(
    access: HeldAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENDED_MAX", 3)
    clock = ManualClock(NOW_MS)
    known = Sessions(SECRET, LIFETIME_MS, clock)
    ann, bob = (access.keys.get(access.tokens[name].key_id) for name in ("ann", "bob"))
    assert ann is not None
    assert bob is not None
    ended = [known.begin(ann) for _ in range(3)]
    for session in ended:
        known.end(session)
    clock.advance(LIFETIME_MS)
    others = known.begin(bob)
    fresh = [known.begin(ann) for _ in range(5)]
    known.end(fresh[0])
    assert [known.goes_on(session) for session in fresh] == [False, True, True, True, True], "old ones make room"
    for session in fresh[1:4]:
        known.end(session)
    assert not any(map(known.goes_on, (*ended, *fresh))), "there is no more room: all until now are over"
    clock.advance(1)
    assert known.goes_on(known.begin(ann))
    assert known.goes_on(others), "another key's goes on"


# --- pages of other sites, and clients that choose for themselves


@pytest.mark.parametrize("token", [None, "", "x", "\xe9", "of another session", "of bob", "the cookie"])
def test_what_changes_something_needs_the_token_of_this_very_session(
    api: Api, access: HeldAccess, ann: LoggedIn, token: str | None
) -> None:
    shown = {
        "of another session": log_in(api, access, "ann").token,
        "of bob": log_in(api, access, "bob").token,
        "the cookie": ann.cookie.partition("=")[2],
    }
    topics = api.queue.topics()
    headers: dict[str, Any] = {"cookie": ann.cookie}
    if token is not None:
        headers["x-csrf-token"] = shown.get(token, token).encode("latin-1")
    for method, path in (("POST", MESSAGES), ("DELETE", SESSION), ("PATCH", "/v1/messages/orders.0.1.2")):
        assert problem(api.request(method, path, headers=headers, json=LATER)) == FORBIDDEN
    assert api.queue.topics() == topics, "no buffer was made"
    assert who(api, ann.cookie).status_code == 200


def test_a_header_that_stands_twice_is_refused(api: Api, ann: LoggedIn) -> None:
    for name, value in (("cookie", ann.cookie), ("x-csrf-token", ann.token)):
        headers = httpx.Headers([("cookie", ann.cookie), ("x-csrf-token", ann.token), (name, value)])
        assert problem(api.send(LATER, headers=headers)) == (400, "invalid-request")


def test_a_cookie_that_a_client_has_chosen_is_never_adopted(api: Api, access: HeldAccess, ann: LoggedIn) -> None:
    """Nor is the one before: each login has a nonce of its own."""
    for chosen in ("delayline-session=chosen", ann.cookie):
        again = log_in(api, access, "ann", cookie=chosen)
        assert again.cookie not in (chosen, ann.cookie)
        assert again.token != ann.token
        assert again.cookie.split(".")[5] != ann.cookie.split(".")[5]


def test_a_session_cannot_begin_another_one(api: Api, ann: LoggedIn) -> None:
    """It would have no end."""
    headers = {"cookie": ann.cookie, "x-csrf-token": ann.token}
    assert problem(api.request("POST", SESSION, headers=headers)) == OVER


def test_a_login_needs_a_key_that_works(api: Api, access: HeldAccess) -> None:
    for header in (f"Bearer {new_token()}", "Bearer nonsense", None):
        answer = api.request("POST", SESSION, headers={} if header is None else {"authorization": header})
        assert problem(answer) == OVER
        assert "set-cookie" not in answer.headers


def test_wrong_keys_use_up_what_an_address_may_try(api: Api) -> None:
    tried = [api.request("POST", SESSION, headers={"authorization": f"Bearer {new_token()}"}) for _ in range(11)]
    assert [answer.status_code for answer in tried] == [401] * 10 + [429]


def test_a_form_of_another_site_cannot_log_anyone_in(api: Api, access: HeldAccess) -> None:
    key = {"authorization": access.header("ann")}
    assert problem(api.request("POST", SESSION, headers={**key, "origin": "http://evil.example"})) == FORBIDDEN
    assert problem(api.request("POST", SESSION, headers={**key, "sec-fetch-site": "cross-site"})) == FORBIDDEN
    form = {**key, "content-type": "application/x-www-form-urlencoded", "delayline-request": "1"}
    assert problem(api.request("POST", SESSION, headers=form, content=b"key=x")) == (400, "invalid-body")


@pytest.mark.parametrize("name", ["next", "redirect", "return_to", "url"])
def test_a_login_leads_nowhere_else(api: Api, access: HeldAccess, name: str) -> None:
    for method in ("POST", "GET"):
        answer = api.request(
            method, f"{SESSION}?{name}=https://evil.example", headers={"authorization": access.header("ann")}
        )
        assert problem(answer) == (400, "invalid-request")
        assert "location" not in answer.headers
