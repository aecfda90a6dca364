"""What both protocols do about names of directives, and names that are like one."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from delayline.schedule.lookalikes import Lookalike
from delayline.schedule.rules import Rules
from delayline.schedule.unheeded import UnheededNames, Why

REMEMBERED = 1000
"""Topics whose rules are at hand."""

FIRST, EVERY = 16, 64
TOPICS_MAX = 1000
"""Per connection; what is sent to more is looked at no more."""


class Sample:
    """Of what a connection sends to topics that take no delays, what is looked at for directives: the first ones of a
    topic and then one in `EVERY`. Applications use the names that they mean from the first one on, and a user who
    forgets to name a topic makes the mistake with every message."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def has(self, topic: str) -> bool:
        """Asked once for each that is sent. Hot."""
        number = self._seen[topic]
        if number == 0 and len(self._seen) >= TOPICS_MAX:
            return False
        self._seen[topic] = number + 1
        return number < FIRST or number % EVERY == 0


class NameScreen:
    """One for as long as the rules stay the same."""

    def __init__(
        self,
        rules_for: Callable[[str], Rules],
        horizon_max_ms: int,
        *,
        unheeded: UnheededNames | None = None,
        refuse_unknown: bool = False,
    ) -> None:
        # Asked twice for each message: each look goes through all of delay.rule.
        self._rules_for = lru_cache(REMEMBERED)(rules_for)
        self._horizon_max_ms = horizon_max_ms
        self._unheeded = unheeded
        self.refuse_unknown = refuse_unknown

    def _misnamed(self, topic: str, like: Iterable[Lookalike]) -> str:
        """What is wrong with names that are like a directive's, where that refuses the message; empty otherwise."""
        for one in like:
            if one.nearest is not None or self.refuse_unknown:
                return one.sentence
            if self._unheeded is not None:
                self._unheeded.note(topic, one.name, Why.NAME)
        return ""
