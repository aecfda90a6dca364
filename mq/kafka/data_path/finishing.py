"""What producers and new owners need of the recovery of hanging transactions (`mq.kafka.data_path.recovery`)."""

from typing import Protocol

OFFSETS_TOPIC = "__consumer_offsets"


class Finisher(Protocol):
    """Any thread may call it."""

    def recover(self, transactional_id: str) -> bool:
        """Write the markers that this id's last transaction lacks, before a producer goes on under the id.
        True where the id's producers had to be fenced for that. Raises QueueUnavailable."""

    def unheard(self, transactional_id: str, group: str | None) -> frozenset[tuple[str, int]]:
        """Partitions that could not be reached for that, and may still lack its marker: a producer that wrote there
        under the id would end it in its own way. Of the offsets' partitions only that of `group`."""

    def sweep(self) -> None:
        """Where no producer goes on under an id: finish what has been open since the last sweep although it
        has ended. Raises QueueUnavailable."""

    def close(self) -> None:
        """Hang up."""


class Nobody:
    """For readers, which take over no transactional id: hanging transactions are left alone."""

    def recover(self, _transactional_id: str) -> bool:
        return False

    def unheard(self, _transactional_id: str, _group: str | None) -> frozenset[tuple[str, int]]:
        return frozenset()

    def sweep(self) -> None:
        pass

    def close(self) -> None:
        pass
