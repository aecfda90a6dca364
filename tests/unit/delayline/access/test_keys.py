"""Keys as clients present them, and as a file keeps them."""

import json

import pytest

from delayline.access.hashing import Hasher
from delayline.access.keys import AccessKey, AccessKeys, is_principal, new_token, parse_token
from delayline.errors import ConfigError

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo"
KEY = AccessKey("abcdefghijklmnop", "ann", HASH, 1, 2, "laptop")


def test_a_token_comes_back_from_its_text() -> None:
    token = new_token()
    assert parse_token(str(token).encode()) == token
    assert new_token() != token


def test_no_part_of_a_key_stands_in_another() -> None:
    tokens = {new_token() for _ in range(1000)}
    assert len({token.key_id for token in tokens}) == len({token.secret for token in tokens}) == 1000


@pytest.mark.parametrize(
    "text", [b"", b"dlk_", b"dlk_abcdefghijklmnop", b"dlk_ABCDEFGHIJKLMNOP_" + b"a" * 43, b"dlk_" + b"a" * 16 + b"_a"]
)
def test_what_is_no_key_is_none(text: bytes) -> None:
    assert parse_token(text) is None
    assert parse_token(str(new_token()).encode() + text + b"\n") is None


def test_keys_come_back_from_a_file() -> None:
    keys = AccessKeys([KEY, AccessKey("bbbbbbbbbbbbbbbb", "bob", HASH, 3)])
    assert AccessKeys.parse(keys.encoded(), "keys.json").all() == keys.all()
    assert AccessKeys.parse(AccessKeys([]).encoded(), "keys.json").all() == []


def test_a_key_takes_the_place_of_the_one_with_its_id() -> None:
    assert AccessKeys([KEY]).having(AccessKey(KEY.id, "bob", HASH, 3)).all() == [AccessKey(KEY.id, "bob", HASH, 3)]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "short"},
        {"principal": ""},
        {"principal": "a b"},
        {"hash": "plain"},
        {"made_ms": "now"},
        {"secret": "x"},
    ],
)
def test_a_file_with_something_else_is_refused_and_shows_no_hash(change: dict[str, object]) -> None:
    file = json.loads(AccessKeys([KEY]).encoded())
    with pytest.raises(ConfigError) as caught:
        AccessKeys.parse(json.dumps([{**file[0], **change}]).encode(), "keys.json")
    assert str(caught.value).startswith("keys.json has no list of keys: ")
    assert HASH not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"[1]", b"\xff", AccessKeys([KEY]).encoded()[:-20]])
def test_half_a_file_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^keys\.json has no list of keys"):
        AccessKeys.parse(data, "keys.json")


def test_two_keys_with_one_id_are_refused() -> None:
    line = AccessKeys([KEY]).encoded()[2:-3]
    with pytest.raises(ConfigError, match="two keys have the same id"):
        AccessKeys.parse(b"[%b,%b]" % (line, line), "keys.json")


@pytest.mark.parametrize(("now_ms", "works"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_key_works_until_it_expires(now_ms: int, works: bool) -> None:
    assert KEY.works_at(now_ms) is works


@pytest.mark.parametrize(
    ("name", "is_one"), [("ann", True), ("team-a/ann@x", True), ("", False), ("-a", False), ("a" * 129, False)]
)
def test_names_of_principals(name: str, is_one: bool) -> None:
    assert is_principal(name) is is_one


def test_a_secret_matches_its_own_hash_and_no_other() -> None:
    hasher = Hasher()
    first, second = hasher.hash("secret"), hasher.hash("secret")
    assert first != second, "each has a salt of its own"
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert hasher.matches("secret", first)
    assert hasher.matches("secret", second)
    assert not hasher.matches("Secret", first)
    assert not hasher.matches("secret", None)
    assert not hasher.matches("secret", "$argon2id$nonsense")
