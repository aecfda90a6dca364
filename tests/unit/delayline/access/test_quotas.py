"""Which quota holds for whom, and what a file of them cannot hold."""

import pytest

from delayline.access.quotas import Quota, Rate
from delayline.access.rules import AccessRules, parse_rules, read_quotas, read_rules
from delayline.errors import ConfigError

RULE = '[[rule]]\nprincipals = ["*"]\ntopics = ["*"]\nacts = ["send"]\n'
QUOTAS = """
[[quota]]
principals = ["ops/*"]

[[quota]]
principals = ["team-a/*", "User:team-?"]
bytes_per_second = "1MiB"
bytes_burst = "64KiB"
requests_per_second = 5
topics_per_hour = 7200
pending_max = 100
horizon_max = "30d"
times_max = 3

[[quota]]
principals = ["*"]
requests_per_second = 1
requests_burst = 2
"""


def of(principal: str, text: str = RULE + QUOTAS) -> Quota | None:
    return parse_rules(text, "rules.toml").quota_of(principal)


@pytest.mark.parametrize(
    ("principal", "place"),
    [("ops/ann", 6), ("team-a/x", 9), ("User:team-b", 9), ("User:team-bc", 19), ("User:ANONYMOUS", 19)],
)
def test_the_first_quota_that_matches_holds(principal: str, place: int) -> None:
    found = of(principal)
    assert found is not None
    assert found.place == f"rules.toml:{place}"


def test_without_a_quota_that_matches_there_is_none() -> None:
    only = RULE + '[[quota]]\nprincipals = ["ann"]\nrequests_per_second = 1\n'
    assert of("bob", only) is None
    assert AccessRules([]).quota_of("ann") is None


def test_rates_have_bursts_of_ten_seconds_where_none_is_given() -> None:
    found = of("team-a/x")
    assert found is not None
    assert (found.bytes, found.requests, found.topics) == (Rate(1 << 20, 64 << 10), Rate(5, 50), Rate(2.0, 7200))
    assert (found.pending_max, found.horizon_max_ms, found.times_max) == (100, 30 * 86_400_000, 3)


def test_a_quota_is_shown_as_it_is_written() -> None:
    found, none = of("team-a/x"), of("ops/ann")
    assert found is not None
    assert none is not None
    assert found.label == "team-a/*,User:team-?"
    assert found.limits == {
        "bytes_per_second": "1MiB",
        "bytes_burst": "64KiB",
        "requests_per_second": "5",
        "requests_burst": "50",
        "topics_per_hour": "7200",
        "pending_max": "100",
        "horizon_max": "30d",
        "times_max": "3",
    }
    assert none.limits == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('bytes_per_second = "0B"', "more than zero"),
        ('bytes_per_second = "1"', "a size with its unit"),
        ("bytes_per_second = 5", "a size with its unit"),
        ('bytes_burst = "1KiB"', "bytes_burst means nothing without bytes_per_second"),
        ("requests_burst = 1", "requests_burst means nothing without requests_per_second"),
        ("requests_per_second = 0", ">= 1"),
        ("requests_per_second = 1.5", "expected `int"),
        ('requests_per_second = "1"', "expected `int"),
        ("topics_per_hour = -1", ">= 1"),
        ("pending_max = 0", ">= 1"),
        ('horizon_max = "0s"', "more than zero"),
        ("horizon_max = 30", "a duration such as"),
        ('horizon_max = "30"', "a duration such as"),
        ("times_max = 0", ">= 1"),
        ("requests_per_minute = 1", "unknown field `requests_per_minute`"),
        ('topics = ["*"]', "unknown field `topics`"),
    ],
)
def test_what_no_quota_can_be_is_refused_with_its_place(line: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"rules\.toml") as error:
        of("ann", RULE + f'[[quota]]\nprincipals = ["ann"]\n{line}\n')
    assert why in str(error.value)


@pytest.mark.parametrize("text", ["[[quota]]\nrequests_per_second = 1\n", "[[quota]]\nprincipals = []\n"])
def test_a_quota_is_for_somebody(text: str) -> None:
    with pytest.raises(ConfigError):
        of("ann", RULE + text)


def test_quotas_alone_are_a_file_only_where_no_rules_decide() -> None:
    alone = QUOTAS.encode()
    assert len(read_quotas(alone, "rules.toml").quotas) == 3
    with pytest.raises(ConfigError, match="missing required field `rule`"):
        read_rules(alone, "rules.toml")
    with pytest.raises(ConfigError, match="it holds quotas alone"):
        read_quotas(RULE.encode() + alone, "rules.toml")
    with pytest.raises(ConfigError, match="missing required field `quota`"):
        read_quotas(b"", "rules.toml")
