"""How long a consumer group waits for what it has failed with: RocketMQ's ConsumerSendMsgBack for every consumer.

Delayline counts: `delayline-attempt`, in the records that a group is given again, comes back with what it sends back.
"""

import re
from collections.abc import Sequence

from delayline.errors import MalformedDirective
from delayline.records.headers import ATTEMPT
from delayline.records.message import Header
from delayline.schedule.rules import Rules
from delayline.schedule.terms import Retry

LEVEL_FIRST = 3
"""RocketMQ's: a consumer that has failed at once is not asked again within the second."""

_ATTEMPT = re.compile(rb"[0-9]{1,9}")


def attempt_of(headers: Sequence[Header]) -> int:
    """How often the group was given the message again. Raises MalformedDirective: what cannot be read, counted as 0,
    would come back for ever."""
    found = [value or b"" for name, value in headers if name == ATTEMPT]
    if not found:
        return 0
    if len(found) > 1 or not _ATTEMPT.fullmatch(found[0]):
        raise MalformedDirective("expected a count, once, as the group's topic has shown it")
    return int(found[0])


def plan_retry(group: str, attempt: int, rules: Rules) -> tuple[int, Retry]:
    """How long it waits (ms), and its outcome then. One level more each time, at most the last; after the last
    attempt there is nothing to wait for."""
    if attempt >= rules.retry_attempts_max:
        return 0, Retry(group, attempt, exhausted=True)
    level = min(LEVEL_FIRST + attempt, len(rules.levels_ms))
    return rules.levels_ms[level - 1], Retry(group, attempt)
