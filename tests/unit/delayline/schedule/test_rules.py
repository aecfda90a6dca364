"""The settings that due times depend on, as facts of the log."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.errors import UnknownFormat
from delayline.schedule.rules import ALIASES, DEFAULT_RULES, HORIZON_MAX_MS, PARSER_VERSION, Rules
from delayline.times import parse_duration_ms

TIMES_MS = st.integers(1, HORIZON_MAX_MS)
RULES = st.builds(
    Rules,
    number=st.integers(0, 1 << 31),
    levels_ms=st.lists(TIMES_MS, min_size=1, max_size=64).map(tuple),
    aliases=st.lists(st.sampled_from(ALIASES), unique=True).map(tuple),
    default_delay_ms=st.just(0) | TIMES_MS,
    retry_attempts_max=st.integers(0, 1000),
)


@given(RULES)
def test_rules_read_back_as_themselves(rules: Rules) -> None:
    assert Rules.decode(rules.encoded) == rules


@given(RULES)
def test_the_number_is_only_a_name(rules: Rules) -> None:
    assert rules.same_as(rules.numbered(rules.number + 1))


@pytest.mark.parametrize(
    "other",
    [
        *(Rules(levels_ms=(1,)), Rules(aliases=("etf1",)), Rules(parser=2), Rules(default_delay_ms=1)),
        Rules(retry_attempts_max=0),
    ],
)
def test_rules_that_could_change_a_due_time_are_not_the_same(other: Rules) -> None:
    assert not DEFAULT_RULES.same_as(other)


def test_the_default_levels_are_rocketmqs() -> None:
    levels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert DEFAULT_RULES.levels_ms == tuple(map(parse_duration_ms, levels.split()))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b'{"levels_ms":1}', b'{"aliases":["\xff"]}',
        Rules(parser=PARSER_VERSION + 1).encoded, Rules(levels_ms=()).encoded, Rules(levels_ms=(0,)).encoded,
        Rules(aliases=("celery",)).encoded, Rules(levels_ms=(HORIZON_MAX_MS + 1,)).encoded,
        Rules(default_delay_ms=-1).encoded, Rules(default_delay_ms=HORIZON_MAX_MS + 1).encoded,
        Rules(retry_attempts_max=-1).encoded,
    ],
)  # fmt: skip
def test_rules_that_cannot_be_followed_are_an_unknown_format(data: bytes) -> None:
    with pytest.raises(UnknownFormat):
        Rules.decode(data)


def test_rules_from_before_default_delays_know_none() -> None:
    assert Rules.decode(b'{"number":4,"parser":1,"levels_ms":[7],"aliases":[]}') == Rules(number=4, levels_ms=(7,))


@given(st.binary(max_size=80))
def test_any_bytes_are_rules_or_an_unknown_format(data: bytes) -> None:
    with suppress(UnknownFormat):
        Rules.decode(data)
