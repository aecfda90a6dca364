"""What producers and new owners need of whoever finishes hanging transactions (`mq.kafka.data_path.recovery`)."""

from typing import Protocol

OFFSETS_TOPIC = "__consumer_offsets"


class Finisher(Protocol):
    """Any thread may call it."""

    def recover(self, transactional_id: str) -> bool:
        """Have every partition hear what this id's last transaction came to, before somebody goes on under the id.
        True where the id's producers had to be fenced for that. Raises QueueUnavailable."""

    def unheard(self, transactional_id: str, group: str | None) -> frozenset[tuple[str, int]]:
        """Partitions that could not be reached for that, and may still have to hear of it: whoever wrote there under
        the id would end it in his own way. Of the offsets' partitions only that of `group`."""

    def sweep(self) -> None:
        """For whoever has nobody to go on under his id: finish what has stood open since the last sweep although it
        has ended. Raises QueueUnavailable."""

    def close(self) -> None:
        """Hang up."""


class Nobody:
    """For who only looks, and goes on in nobody's place: what hangs is left hanging."""

    def recover(self, _transactional_id: str) -> bool:
        return False

    def unheard(self, _transactional_id: str, _group: str | None) -> frozenset[tuple[str, int]]:
        return frozenset()

    def sweep(self) -> None:
        pass

    def close(self) -> None:
        pass
