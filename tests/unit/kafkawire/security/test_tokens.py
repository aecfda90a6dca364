"""What is a token, and how long it is used."""

import json
import pickle
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from threading import Event, Thread

import pytest

from delayline.clock import ManualClock
from kafkawire.protocol.errors import NoToken
from kafkawire.security.oauth.local import FromFile
from kafkawire.security.oauth.token import CHARS_MAX, Token, make_token, of_answer
from kafkawire.security.oauth.tokens import AGAIN_S, RENEW_S, Tokens

NOW_MS = 1_767_225_600_000


def jwt(**claims: object) -> str:
    return f"e30.{urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.c2ln"


class Given:
    """Gives tokens that live so long (s), one after the other; 0 fails."""

    def __init__(self, clock: ManualClock, lives_s: Sequence[float]) -> None:
        self.clock, self.lives_s, self.count = clock, list(lives_s), 0

    def __call__(self, now_ms: int) -> Token:
        self.count += 1
        life_s = self.lives_s.pop(0)
        if not life_s:
            raise NoToken("mq.properties: x: down.")
        return Token(f"token-{self.count}", now_ms + int(life_s * 1000))


def keeping(*lives_s: float) -> tuple[Tokens, Given, ManualClock]:
    clock = ManualClock()
    given = Given(clock, lives_s)
    return Tokens("x", given, clock), given, clock


# --- how long


def test_a_token_is_used_for_four_fifths_of_its_life() -> None:
    tokens, _, clock = keeping(100, 100)
    assert tokens.token().value == "token-1"
    clock.advance(79_999)
    assert tokens.token().value == "token-1"
    clock.advance(1)
    assert tokens.token().value == "token-2"


def test_a_token_that_cannot_be_renewed_is_used_to_its_end_and_asked_for_seldom() -> None:
    tokens, given, clock = keeping(100, 0, 0, 0)
    tokens.token()
    clock.advance(80_000)
    assert [tokens.token().value for _ in range(3)] == ["token-1"] * 3
    assert given.count == 2
    clock.advance(int(RENEW_S * 1000))
    assert (tokens.token().value, given.count) == ("token-1", 3)
    clock.advance(10_000)
    with pytest.raises(NoToken, match="down"):
        tokens.token()


def test_without_a_token_the_last_failure_answers_for_a_moment() -> None:
    tokens, given, clock = keeping(0, 100)
    for _ in range(3):
        with pytest.raises(NoToken, match="down"):
            tokens.token()
    assert given.count == 1
    clock.advance(int(AGAIN_S * 1000))
    assert tokens.token().value == "token-2"


def test_a_token_that_has_expired_already_is_none() -> None:
    tokens, _, _ = keeping(-5)
    with pytest.raises(NoToken, match=r"mq\.properties: x: the token expired 5 s ago"):
        tokens.token()


def test_a_token_that_lives_a_moment_is_not_fetched_for_every_login() -> None:
    tokens, given, clock = keeping(4, 4)
    for _ in range(3):
        tokens.token()
    clock.advance(3_999)
    tokens.token()
    assert given.count == 1
    clock.advance(1)
    assert tokens.token().value == "token-2"


def test_who_asks_while_another_one_renews_goes_on_with_what_there_is() -> None:
    clock, begun, go_on = ManualClock(), Event(), Event()
    values = iter(("one", "two"))

    def fetch(now_ms: int) -> Token:
        value = next(values)
        if value == "two":
            begun.set()
            assert go_on.wait(10)
        return Token(value, now_ms + 100_000)

    tokens = Tokens("x", fetch, clock)
    tokens.token()
    clock.advance(80_000)
    renewing = Thread(target=tokens.token)
    renewing.start()
    assert begun.wait(10)
    assert tokens.token().value == "one"
    go_on.set()
    renewing.join(10)
    assert tokens.token().value == "two"


def test_librdkafka_is_given_the_same_token_with_its_end_in_seconds() -> None:
    tokens, given, _ = keeping(100)
    assert tokens.for_library("") == ("token-1", (given.clock.now_ms() + 100_000) / 1000, "delayline", {})
    assert (tokens.token().value, given.count) == ("token-1", 1)


def test_a_source_can_be_sent_to_another_process() -> None:
    tokens = Tokens("x", FromFile("/nowhere/token"))
    with pytest.raises(NoToken, match="No such file"):
        pickle.loads(pickle.dumps(tokens)).token()


# --- what


def test_a_jwt_names_its_subject_and_its_own_end_counts_where_it_comes_first() -> None:
    token = make_token("x", jwt(sub="ann", exp=NOW_MS // 1000 + 60), NOW_MS + 3_600_000, {})
    assert (token.principal, token.expires_ms) == ("ann", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "two words",
        "line\nbreak",
        "ctrl\x01auth=Bearer x",
        "ümlaut",
        "=abc",
        pytest.param("a" * (CHARS_MAX + 1), id="long"),
        None,
        5,
        ["a"],
    ],
)
def test_what_may_not_be_sent_is_no_token_and_not_shown(value: object) -> None:
    with pytest.raises(NoToken, match=r"^mq\.properties: x: (no token came|what came is no token)") as caught:
        make_token("x", value, NOW_MS + 1000, {})
    assert not value or str(value) not in str(caught.value)


def test_a_token_shows_itself_to_nobody() -> None:
    assert "secret" not in repr(make_token("x", "secret", NOW_MS, {}))


def test_a_token_without_a_known_end_is_refused() -> None:
    with pytest.raises(NoToken, match="neither expires_in nor exp"):
        of_answer("x", b'{"access_token": "abc"}', NOW_MS, {})


@pytest.mark.parametrize(("answer", "life_s"), [("60", 60), ('"60"', 60), ("60.5", 60.5), ("1e300", 366 * 86_400)])
def test_the_answer_of_an_endpoint_sets_how_long_a_token_lives(answer: str, life_s: float) -> None:
    found = of_answer("x", b'{"access_token": "abc", "expires_in": %s}' % answer.encode(), NOW_MS, {})
    assert found.expires_ms == NOW_MS + life_s * 1000


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"abc", b"[]", b"\xff", b'{"access_token": {}, "expires_in": 1}', b"{}"),
        pytest.param(b"[" * 100_000, id="deep"),
        *(
            b'{"access_token": "abc", "expires_in": %s}' % one
            for one in (b"true", b"NaN", b'"soon"', b"[]", b"Infinity")
        ),
    ],
)
def test_an_answer_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(NoToken, match=r"^mq\.properties: x: "):
        of_answer("x", text, NOW_MS, {})


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b"null", b'{"sub": 5, "exp": "soon"}'])
def test_what_looks_like_a_jwt_and_is_none_has_no_claims(content: bytes) -> None:
    token = make_token("x", f"a.{urlsafe_b64encode(content).decode().rstrip('=')}.c", NOW_MS, {})
    assert (token.principal, token.expires_ms) == ("delayline", NOW_MS)
