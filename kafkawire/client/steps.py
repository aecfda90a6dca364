"""What the machine of a transactional producer (`kafkawire.client.transaction`) takes in, and what it returns."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Place = tuple[str, int]
"""Topic and partition."""

NO_ANSWER, OUT_OF_TIME = -195, -185
"""Our own codes, with librdkafka's numbers (_TRANSPORT, _TIMED_OUT): the connection ended; time is up."""


def by_topic(places: Iterable[Place]) -> Iterable[tuple[str, list[int]]]:
    """The partitions of each topic, as most requests name them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics.items()


class Identity(NamedTuple):
    """The producer that sends a request, as brokers know it."""

    producer_id: int
    epoch: int


# --- requests to send


class Initialise(NamedTuple):
    """InitProducerId, to the coordinator. Without an identity: the producer that had the transactional id before is
    fenced."""


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn, to the coordinator."""

    identity: Identity
    places: tuple[Place, ...]


class Write(NamedTuple):
    """A batch for a partition's leader. `number` is its place in `Begin.batches`."""

    identity: Identity
    place: Place
    sequence: int
    number: int


class AddOffsets(NamedTuple):
    """AddOffsetsToTxn, to the coordinator."""

    identity: Identity


class CommitOffsets(NamedTuple):
    """TxnOffsetCommit, to the group's coordinator."""

    identity: Identity


class End(NamedTuple):
    """EndTxn(commit), to the coordinator."""

    identity: Identity


Request = Initialise | AddPartitions | Write | AddOffsets | CommitOffsets | End


class Step(NamedTuple):
    """A request to send now. `again`: it was refused for the moment, or could not be sent, so wait a little before;
    `elsewhere`: and find out anew who serves it."""

    request: Request
    again: bool = False
    elsewhere: bool = False


# --- what happens


class Open(NamedTuple):
    """A caller wants a producer that is ready."""


class Begin(NamedTuple):
    """Write these batches, (place, number of records) each, and then the offsets if there are some; commit."""

    batches: Sequence[tuple[Place, int]]
    offsets: bool


class Opened(NamedTuple):
    """InitProducerId has given us an identity. `implicit`: the cluster is at transaction.version 2 or later."""

    identity: Identity
    implicit: bool


class Done(NamedTuple):
    """The request was carried out. `identity` is the next one, where EndTxn names it (version 5)."""

    request: Request
    identity: Identity | None = None


class Refused(NamedTuple):
    """The request was answered with an error. `of_places`: by partition, where AddPartitionsToTxn reports it."""

    request: Request
    code: int
    of_places: tuple[tuple[Place, int], ...] = ()


class Unsent(NamedTuple):
    """The request did not leave: no broker for it could be reached."""

    request: Request


class Lost(NamedTuple):
    """The request may have been carried out: it was sent, and no answer came."""

    request: Request


class Expired(NamedTuple):
    """The time for what is under way is up. An End that was sent and waits for its answer is Lost first."""


Event = Open | Begin | Opened | Done | Refused | Unsent | Lost | Expired


# --- what has come out


class Committed(NamedTuple):
    """All of it."""


class Aborted(NamedTuple):
    """None of it, for certain: nothing can commit it any more. `refused` are partitions that took no records, with
    the reason of each; `code` is the whole transaction's (a protocol error, or one of ours)."""

    code: int
    refused: tuple[tuple[Place, int], ...] = ()


class Unknown(NamedTuple):
    """All or none. The next Open resolves it: what is then still open is aborted."""

    code: int


Outcome = Committed | Aborted | Unknown
