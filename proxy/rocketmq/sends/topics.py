"""What is done with sends to a topic, by its name in RocketMQ."""

from collections.abc import Callable
from enum import Enum
from functools import lru_cache

from mq.rocketmq.naming import WireNames

REMEMBERED = 10_000


class TopicKind(Enum):
    DELAYED = "takes delays"
    PLAIN = "a user's, and takes none"
    HIDDEN = "of this installation; clients may not send to it"
    RELAYED = "RocketMQ's own, of retries, dead letters and replies, or of our groups: sends pass"


KindOf = Callable[[str], TopicKind]


def kinds(names: WireNames, is_delay_enabled: Callable[[str], bool]) -> KindOf:
    """Remembered: asked once per send."""

    @lru_cache(REMEMBERED)
    def kind_of(topic: str) -> TopicKind:
        if not names.is_users(topic):
            return TopicKind.HIDDEN if names.names.is_hidden(names.back(topic)) else TopicKind.RELAYED
        return TopicKind.DELAYED if is_delay_enabled(topic) else TopicKind.PLAIN

    return kind_of
