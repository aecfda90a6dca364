"""Quotas: how much of what all share a principal may use.

In the file of rules:

    [[quota]]
    principals = ["team-a/*", "User:team-a-*"]
    bytes_per_second = "1MiB"
    bytes_burst = "10MiB"
    requests_per_second = 100
    requests_burst = 1000
    topics_per_hour = 10
    pending_max = 100000
    horizon_max = "30d"
    times_max = 100

Of the quotas that match a principal the first one holds, whole. Each principal has its own buckets, also where one
quota is for many. Without a quota there is no limit. The model is Kafka's client quotas (KIP-13, KIP-124), with token
buckets in the place of its windows.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from delayline.access.patterns import Patterns, principals_of
from delayline.errors import ConfigError, MalformedDirective
from delayline.sizes import format_size, parse_size_bytes
from delayline.times import format_duration, parse_duration_ms

QUOTAS_MAX = 10_000
BURST_S = 10
"""A burst that is not given is what the rate allows in so many seconds: about the window of Kafka's quotas (11 s)."""

HOUR_S = 3600
LABEL_CHARS_MAX = 100


class Limit(StrEnum):
    """What a quota limits, by the key that it has in the file."""

    BYTES = "bytes_per_second"
    REQUESTS = "requests_per_second"
    TOPICS = "topics_per_hour"
    PENDING = "pending_max"
    HORIZON = "horizon_max"
    TIMES = "times_max"


WAITED_FOR = frozenset({Limit.BYTES, Limit.REQUESTS, Limit.TOPICS, Limit.PENDING})
"""What is refused for these passes later; for the others it never does."""


class Rate(NamedTuple):
    """A token bucket: tokens that come in a second, and how many there are at most."""

    per_s: float
    burst: int


class Breach(NamedTuple):
    """What a message asks for beyond a quota: a phrase for its sender."""

    limit: Limit
    why: str


class Quota(NamedTuple):
    """One quota; None is no limit. `place` is where it stands: a phrase for people. `names` are those of
    `principals`, as they are written."""

    place: str
    names: tuple[str, ...]
    principals: re.Pattern[str]
    bytes: Rate | None = None
    requests: Rate | None = None
    topics: Rate | None = None
    pending_max: int | None = None
    horizon_max_ms: int | None = None
    times_max: int | None = None

    @property
    def label(self) -> str:
        """Of metrics."""
        return ",".join(self.names)[:LABEL_CHARS_MAX]

    @property
    def bounds_schedules(self) -> bool:
        return self.horizon_max_ms is not None or self.times_max is not None

    def breach(self, ahead_ms: int, times: int | None) -> "Breach | None":
        """What is wrong with a message that is due so far ahead and delivered so often (None: without end)."""
        horizon_ms, times_max = self.horizon_max_ms, self.times_max
        if horizon_ms is not None and ahead_ms > horizon_ms:
            return Breach(Limit.HORIZON, f"due later than {format_duration(horizon_ms)} from now")
        if times_max is not None and (times is None or times > times_max):
            asked = "without end" if times is None else f"{times} times"
            return Breach(Limit.TIMES, f"delivered {asked}, and {times_max} times are the most")
        return None

    @property
    def limits(self) -> dict[str, str]:
        """As they are in a file, with the bursts that hold."""
        return {
            **_rate(Limit.BYTES, "bytes_burst", self.bytes, format_size),
            **_rate(Limit.REQUESTS, "requests_burst", self.requests, str),
            **({} if self.topics is None else {Limit.TOPICS: str(self.topics.burst)}),
            **({} if self.pending_max is None else {Limit.PENDING: str(self.pending_max)}),
            **({} if self.horizon_max_ms is None else {Limit.HORIZON: format_duration(self.horizon_max_ms)}),
            **({} if self.times_max is None else {Limit.TIMES: str(self.times_max)}),
        }


def _rate(limit: Limit, burst: str, rate: Rate | None, shown: Callable[[int], str]) -> dict[str, str]:
    return {} if rate is None else {limit: shown(int(rate.per_s)), burst: shown(rate.burst)}


class _Size(int):
    """Bytes above zero, written as in the settings."""


class _Duration(int):
    """Milliseconds above zero, written as in the settings."""


_READ = {_Size: parse_size_bytes, _Duration: parse_duration_ms}

_Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]


class QuotaIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A quota as it is written."""

    principals: Patterns
    bytes_per_second: _Size | None = None
    bytes_burst: _Size | None = None
    requests_per_second: _Count | None = None
    requests_burst: _Count | None = None
    topics_per_hour: _Count | None = None
    pending_max: _Count | None = None
    horizon_max: _Duration | None = None
    times_max: _Count | None = None


def read_field(kind: type, given: object) -> object:
    """What msgspec does not know by itself (`dec_hook`). Raises ValueError."""
    try:
        value = _READ[kind](given if isinstance(given, str) else "")
    except MalformedDirective as error:
        raise ValueError(str(error)) from error
    if value == 0:
        raise ValueError("expected more than zero: a quota slows down, and rules refuse")
    return kind(value)


def quota(place: str, given: QuotaIn) -> Quota:
    """Raises ConfigError."""
    return Quota(
        place,
        given.principals,
        principals_of(given.principals),
        _bucket(place, "bytes", given.bytes_per_second, given.bytes_burst),
        _bucket(place, "requests", given.requests_per_second, given.requests_burst),
        None if given.topics_per_hour is None else Rate(given.topics_per_hour / HOUR_S, given.topics_per_hour),
        given.pending_max,
        None if given.horizon_max is None else int(given.horizon_max),
        given.times_max,
    )


def _bucket(place: str, name: str, per_s: int | None, burst: int | None) -> Rate | None:
    if per_s is not None:
        return Rate(per_s, int(per_s * BURST_S if burst is None else burst))
    if burst is not None:
        raise ConfigError(f"{place}: {name}_burst means nothing without {name}_per_second.")
    return None
