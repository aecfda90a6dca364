"""What producers and heirs need of who finishes hanging transactions (`mq.kafka.direct.hanging`)."""

from typing import Protocol


class Finisher(Protocol):
    """Any thread may call it."""

    def settle(self, transactional_id: str) -> bool:
        """Have every partition hear what this id's last transaction came to, before somebody goes on under the id.
        True where the id's producers had to be fenced for that. Raises QueueUnavailable."""

    def is_unfinished(self, transactional_id: str) -> bool:
        """Whether some partition could not be reached for that, and may still have to hear of it."""


class Nobody:
    """Where the configuration asks for what only librdkafka speaks: what hangs is left hanging."""

    def settle(self, _transactional_id: str) -> bool:
        return False

    def is_unfinished(self, _transactional_id: str) -> bool:
        return False
