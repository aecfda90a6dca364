"""How many topics of consumer groups senders may have made: the group's name is theirs to write, and each topic costs
the queue something for ever.

The bound is for each topic of users: the right to write there is what a sender has, and the log does not show who it
was. Without it one client made 53 topics on a broker in 14 s, with the service's rights.
"""

from collections import deque
from threading import Lock
from typing import NoReturn

from delayline.clock import Clock
from delayline.process import logs
from mq.errors import GroupTopicsBound

GROUP_TOPICS_MAX = 20
"""An hour and topic of users: ten groups, of which each has one topic for retries and one for its dead."""

WINDOW_S = 3600.0
LOGGED_AGAIN_S = 600.0
"""Between two log lines about the same topic of users: each message for a group without a topic comes here."""

log = logs.get(__name__)


class GroupTopicLimit:
    """Of one process. Any thread."""

    def __init__(self, topics_max: int, clock: Clock) -> None:
        """`topics_max` is for an hour; 0 makes none, and groups have the topics that are there."""
        self._topics_max = topics_max
        self._clock = clock
        self._lock = Lock()
        self._made_s: dict[str, deque[float]] = {}  # by topic of users; each bounded by `topics_max`
        self._logged_s: dict[str, float] = {}

    def check(self, name: str, target: str) -> None:
        """Whether the group's topic `name` may be made, for what comes from `target`. Raises GroupTopicsBound."""
        with self._lock:
            made_s = self._made_s.get(target, deque())
            since_s = self._clock.monotonic_s() - WINDOW_S
            while made_s and made_s[0] <= since_s:
                made_s.popleft()
            if len(made_s) >= self._topics_max:
                self._refuse(name, target)

    def _refuse(self, name: str, target: str) -> NoReturn:
        detail = (
            f"topic {name!r} is missing, and retry.topics_made_max lets {self._topics_max} an hour be made "
            f"for what comes from {target!r}; make it by hand, or raise the bound"
        )
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s.get(target, -LOGGED_AGAIN_S) >= LOGGED_AGAIN_S:
            self._logged_s[target] = now_s
            log.warning("a topic of a consumer group is not made", topic=target, missing=name, detail=detail)
        raise GroupTopicsBound(detail)

    def made(self, target: str) -> None:
        """One was."""
        with self._lock:
            self._made_s.setdefault(target, deque()).append(self._clock.monotonic_s())
