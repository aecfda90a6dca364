"""Cron expressions and time zones. Repeats are not built yet: what a sender writes is checked, then refused."""

import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from cronsim import CronSim, CronSimError

from delayline.errors import MalformedDirective

CRON_CHARS_MAX = 256

_ITEM = r"(?:\*|(?:[0-9]{1,2}|[A-Za-z]{3})(?:-(?:[0-9]{1,2}|[A-Za-z]{3}))?)(?:/[0-9]{1,2})?"
_CRON = re.compile(rf"(?:{_ITEM}(?:,{_ITEM})*)(?: +{_ITEM}(?:,{_ITEM})*){{4,5}}")
"""The shape alone: it keeps out L W # ? and @names, which the cron library would partly take."""

_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def check_cron(text: str) -> None:
    """Five fields, or six with seconds first; 0 and 7 are Sunday. Raises MalformedDirective."""
    if len(text) > CRON_CHARS_MAX:
        raise MalformedDirective(f"longer than {CRON_CHARS_MAX} characters")
    if not _CRON.fullmatch(text):
        raise MalformedDirective(
            "expected a cron expression of 5 fields, or 6 with seconds first, without L W # ? @names"
        )
    try:
        next(CronSim(text, _ANY_MOMENT))
    except CronSimError as error:
        raise MalformedDirective(f"not a cron expression: {error}") from error
    except StopIteration:
        raise MalformedDirective("a cron expression that never fires") from None


def check_time_zone(text: str) -> None:
    """A zone or link of the IANA database, as it is spelt there. Raises MalformedDirective."""
    if text not in _zones():
        raise MalformedDirective("expected an IANA time zone such as Europe/Berlin")


@cache
def _zones() -> frozenset[str]:
    """From the pinned package, not from the machine: the same names everywhere."""
    return frozenset((files("tzdata") / "zones").read_text().split())
