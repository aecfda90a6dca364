"""What the screens of both protocols do about names in a message to a topic that takes delays."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from delayline.schedule.lookalikes import Lookalike
from delayline.schedule.rules import Rules
from delayline.schedule.unheeded import UnheededNames, Why

REMEMBERED = 1000
"""Topics whose rules are at hand."""


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
