"""Where tokens come from, and the error when none comes: always the property, never a secret."""

import json
import os
import stat
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from delayline.clock import ManualClock, SystemClock
from delayline.errors import ConfigError
from kafkawire.protocol.errors import NoToken
from kafkawire.security.oauth import local, oidc
from kafkawire.security.oauth.reading import read_tokens
from kafkawire.security.oauth.tokens import Tokens
from tests.brokers.oidc import Answer, Asked, endpoint
from tests.ports import free_port

pytestmark = pytest.mark.slow

FILE, COMMAND = local.FILE, local.COMMAND
CLOCK = ManualClock()
SECRET = "s3cret-of-ann"


def reading(url: str, **more: str) -> Tokens:
    return read_tokens(of_endpoint(url, **more), CLOCK)


def of_endpoint(url: str, **more: str) -> dict[str, str]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": SECRET,
        **{f"sasl.oauthbearer.{name}": value for name, value in more.items()},
    }


def refusal(tokens: Tokens) -> str:
    with pytest.raises(NoToken) as caught:
        tokens.token()
    text = str(caught.value)
    assert SECRET not in text
    assert caught.value.__cause__ is None
    return text


# --- an endpoint


def answering(status: int, body: "bytes | Iterator[bytes]") -> Answer:
    return lambda asked: (status, body)


def test_an_endpoint_is_asked_once_for_a_token_in_the_words_of_rfc_6749() -> None:
    heard: list[Asked] = []

    def answer(asked: Asked) -> tuple[int, bytes]:
        heard.append(asked)
        return 200, b'{"access_token": "abc", "token_type": "Bearer", "expires_in": 60}'

    with endpoint(answer) as url:
        tokens = reading(url, scope="read write", extensions="traceId=7,pool=a b")
        found = [tokens.token() for _ in range(3)]
    assert {token.value for token in found} == {"abc"}
    assert found[0].extensions == {"traceId": "7", "pool": "a b"}
    (asked,) = heard
    assert (asked.user, asked.password) == ("ann", SECRET)
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}


def test_an_endpoint_that_is_down_is_reported() -> None:
    assert "token.endpoint.url: ConnectError" in refusal(reading(f"http://127.0.0.1:{free_port()}/token"))


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, b"<html>" + SECRET.encode(), "answers 500."),
        (
            401,
            b'{"error": "invalid_client", "error_description": "%s"}' % SECRET.encode(),
            "answers 401 (invalid_client).",
        ),
        (400, b'{"error": "a\\nb"}', "answers 400."),
        (302, b"", "answers 302."),
        (200, SECRET.encode(), "no JSON object"),
        (200, b'{"access_token": "abc"}', "neither expires_in nor exp"),
        (200, b'{"access_token": "abc", "expires_in": 0}', "expired 0 s ago"),
        (200, b'{"access_token": "%s two", "expires_in": 60}' % SECRET.encode(), "is no token"),
    ],
)
def test_an_answer_without_a_token_is_reported(status: int, body: bytes, why: str) -> None:
    with endpoint(answering(status, body)) as url:
        text = refusal(reading(url))
    assert text.startswith("mq.properties: sasl.oauthbearer.token.endpoint.url: ")
    assert why in text


def test_a_huge_answer_is_not_held() -> None:
    with endpoint(answering(200, (b"x" * 65_536 for _ in range(1_000_000)))) as url:
        assert "more than 262144 bytes" in refusal(reading(url))


def test_an_answer_that_comes_too_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte: each comes soon, and all of them never."""
    monkeypatch.setattr(oidc, "FETCH_S", 0.5)

    def drop_by_drop() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.05)
            yield b" "

    with endpoint(answering(200, drop_by_drop())) as url:
        assert "no answer within 0.5 s" in refusal(reading(url))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"token.endpoint.url": "http://idp.example.com/token"}, "https, or http on a loopback address"),
        ({"token.endpoint.url": "ftp://127.0.0.1/token"}, "https"),
        ({"token.endpoint.url": "https:///token"}, "no URL"),
        ({"token.endpoint.url": "https://[::1/token"}, "no URL"),
        ({"token.endpoint.url": "https://idp:99999999/token"}, "no URL"),
        ({"token.endpoint.url": "https://idp/a b"}, "no URL"),
        ({"token.endpoint.url": "https://ann:s3cret-of-ann@idp/token"}, "go into"),
        ({"token.endpoint.url": ""}, "it is needed"),
        ({"client.id": "a:b"}, "no colon"),
        ({"client.secret": ""}, "client.secret"),
        ({"client.secret": "a\nb"}, "control characters"),
        ({"client.credentials.client.id": "bob"}, "contradict"),
        ({"grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "grant.type"),
        ({"method": "magic"}, "default or oidc"),
        ({"method": "default"}, "none is set"),
        ({"extensions": "auth=x"}, "never auth"),
        ({"extensions": "a1=x"}, "names of letters"),
        ({"extensions": "a=\x01"}, "name=value"),
        ({"config": "principal=ann"}, "sasl.oauthbearer.config: only with"),
    ],
)
def test_properties_that_cannot_be_are_refused(changed: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=r"^mq\.properties: ") as caught:
        reading("https://idp.example.com/token", **changed)
    assert why in str(caught.value)
    assert SECRET not in str(caught.value)


def test_two_ways_to_a_token_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method and delayline\.oauthbearer\.token\.file"):
        read_tokens({**of_endpoint("https://idp/token"), FILE: "/token"})


def test_authorities_of_an_endpoint_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"https\.ca\.location"):
        read_tokens({**of_endpoint("https://idp/token"), "https.ca.location": "/nowhere"})


# --- a file


def test_a_file_is_read_anew_when_its_token_has_had_its_time(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text(" abc\n")
    tokens = read_tokens({FILE: str(file)}, CLOCK)
    assert tokens.token().value == "abc"
    file.write_text("def")
    CLOCK.advance(240_000)
    assert tokens.token().value == "def"


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"a\nb", b"\xff", b"x" * 200_000, b"a\x00"])
def test_a_file_without_a_token_is_reported(tmp_path: Path, content: bytes) -> None:
    (file := tmp_path / "token").write_bytes(content)
    assert refusal(read_tokens({FILE: str(file)}, CLOCK)).startswith(f"mq.properties: {FILE}: ")


def test_a_file_that_is_none_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        assert FILE in refusal(read_tokens({FILE: str(tmp_path / name)}, CLOCK))


# --- a command


def command(text: str) -> Tokens:
    return read_tokens({COMMAND: f"{sys.executable} -c '{text}'"}, CLOCK)


def test_a_command_prints_a_token_or_the_answer_of_an_endpoint() -> None:
    assert command('print("abc")').token().value == "abc"
    token = command('print("{\\"access_token\\": \\"abc\\", \\"expires_in\\": 60}")').token()
    assert (token.value, token.expires_ms) == ("abc", CLOCK.now_ms() + 60_000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no token came"),
        (f'print("{SECRET} two")', "is no token"),
        (f'import sys; print("{SECRET}"); sys.exit(3)', "ends with exit code 3; run it by hand"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
        (f'import sys; sys.exit("{SECRET}")', "exit code 1"),
        ('print("x" * 200_000)', "prints more than"),
    ],
)
def test_a_command_that_gives_no_token_is_reported(text: str, why: str) -> None:
    found = refusal(command(text))
    assert found.startswith(f"mq.properties: {COMMAND}: ")
    assert why in found


def test_a_command_that_hangs_is_ended_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "RUN_S", 1.0)
    child = tmp_path / "child"
    text = f"sh -c 'sleep 600 & echo $! > {child}; echo abc; wait'"
    assert "not ended within 1 s" in refusal(read_tokens({COMMAND: text}, SystemClock()))
    pid = int(child.read_text())
    until_s = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_closes_its_output_and_goes_on_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "RUN_S", 0.5)
    assert "not ended within" in refusal(command("import os, time; os.close(1); time.sleep(60)"))


def test_a_command_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (plain := tmp_path / "plain").write_text("")
    plain.chmod(stat.S_IRUSR)
    for words, why in (("/nowhere/tool", "No such file"), (str(plain), "Permission denied")):
        assert why in refusal(read_tokens({COMMAND: words}, CLOCK))


@pytest.mark.parametrize("words", ["", "  ", "tool 'unfinished"])
def test_a_command_without_words_is_refused(words: str) -> None:
    with pytest.raises(ConfigError, match=r"delayline\.oauthbearer\.token\.command"):
        read_tokens({COMMAND: words})


# --- unsecured


def unsecured(text: str) -> Tokens:
    return read_tokens({"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": text}, CLOCK)


def test_an_unsecured_token_is_as_librdkafkas_would_be() -> None:
    text = "principal=ann principalClaimName=azp scope=a,b scopeClaimName=roles lifeSeconds=60 extension_traceId=7"
    token = unsecured(text).token()
    head, body, signature = token.value.split(".")
    claims = json.loads(urlsafe_b64decode(body + "=="))
    now_s = CLOCK.now_ms() / 1000
    assert (json.loads(urlsafe_b64decode(head + "==")), signature) == ({"alg": "none"}, "")
    assert claims == {"azp": "ann", "roles": ["a", "b"], "iat": now_s, "exp": now_s + 60}
    assert (token.expires_ms, token.extensions) == (CLOCK.now_ms() + 60_000, {"traceId": "7"})


@pytest.mark.parametrize(
    "text", ["", "scope=a", "principal=ann colour=red", "principal=ann lifeSeconds=0", "principal=ann lifeSeconds=x"]
)
def test_an_unsecured_token_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.config"):
        unsecured(text)
