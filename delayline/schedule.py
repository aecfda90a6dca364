"""Directives: from what a producer wrote to when its message is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from delayline.message import Header
from delayline.rules import Rules


class Reason(StrEnum):
    """Why a directive is refused. The values are the problem types of the HTTP API (`/problems/<value>`)."""

    INVALID = "invalid-schedule"  # a value that does not parse, or a combination that makes no sense
    CONTRADICTORY = "contradictory-schedule"  # two different due times
    BEYOND_HORIZON = "beyond-horizon"  # due later than delay.horizon_max
    NOT_SUPPORTED = "not-supported"  # understood, not built yet: refused, never ignored


@dataclass(frozen=True, slots=True)
class Schedule:
    """Deliver at `due_ms` (epoch ms UTC); in the past means at once."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """No delay was asked for: the record belongs in the target topic straight away."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on a pending message."""

    name: str
    ref: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """A directive that is refused. `directive` is the header it is about; `detail` one sentence for the sender."""

    reason: Reason
    directive: str
    detail: str


Verdict = Schedule | Immediate | Op | Invalid


def read_directives(headers: Sequence[Header], accepted_at_ms: int, rules: Rules) -> Verdict:
    """The one pure function behind Kafka headers, RocketMQ user properties and the HTTP schedule object."""
    raise NotImplementedError


def directive_names(aliases: tuple[str, ...]) -> frozenset[bytes]:
    """The header names that `read_directives` looks at, with those of the given alias families."""
    raise NotImplementedError
