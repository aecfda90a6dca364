"""Nodes that answer fetches from logs in memory, and do what a test scripts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from threading import Condition

from delayline.clock import SystemClock
from kafkawire.client.address import Address
from kafkawire.client.metadata import Nodes
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At, Part, Read
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import Message, RequestHeader, decode
from kafkawire.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from kafkawire.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from kafkawire.security.access import Access
from tests.unit.mq.kafka.logged import Log
from tests.unit.mq.kafka.served import served

TIMEOUT_S = 5.0
PATIENCE_S = 20.0
CLOCK = SystemClock()


class Cluster:
    """`leaders` by partition. `instead` is asked first what to answer to a fetch, as (node, request): a message, raw
    bytes, None to hang up, or ... for the usual."""

    def __init__(self, leaders: dict[At, int]) -> None:
        self.leaders = leaders
        self.logs = {at: Log() for at in leaders}
        self.errors: dict[At, int] = {}
        self.addresses: dict[int, Address] = {}
        self.fetches: list[tuple[int, FetchRequest]] = []
        self.instead: Callable[[int, FetchRequest], object] = lambda node, request: ...
        self.changed = Condition()

    def append(self, at: At, *bodies: bytes) -> None:
        with self.changed:
            self.logs[at].append(list(bodies))
            self.changed.notify_all()

    def answer(self, node: int, header: RequestHeader, body: memoryview) -> "Message | bytes | None":
        if header.api_key == ApiKey.METADATA:
            return self._metadata([topic.name or "" for topic in decode(MetadataRequest, 12, body).topics or []])
        request = decode(FetchRequest, header.version, body)
        self.fetches.append((node, request))
        found = self.instead(node, request)
        return self.fetched(node, request) if found is ... else found  # type: ignore[return-value]

    def _metadata(self, names: list[str]) -> MetadataResponse:
        brokers = [MetadataBroker(node, *address) for node, address in self.addresses.items()]
        return MetadataResponse(brokers=brokers, topics=[self._topic(name) for name in names])

    def _topic(self, name: str) -> MetadataTopic:
        parts = [MetadataPartition(0, at.partition, node) for at, node in self.leaders.items() if at.topic == name]
        return MetadataTopic(0 if parts else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, partitions=parts)

    def fetched(self, node: int, request: FetchRequest) -> FetchResponse:
        """Waits as a broker does where there is nothing."""
        wanted = [(At(topic.topic, part.partition), part) for topic in request.topics for part in topic.partitions]
        with self.changed:
            self.changed.wait_for(lambda: any(self._speaks(node, at, part) for at, part in wanted), 0.1)
            parts = [(at, self._part(node, at, part)) for at, part in wanted]
        return FetchResponse(responses=[FetchedTopic(topic=at.topic, partitions=[part]) for at, part in parts])

    def _speaks(self, node: int, at: At, part: FetchPartition) -> bool:
        found = self._part(node, at, part)
        return bool(found.error_code or found.records or found.diverging_epoch)

    def _part(self, node: int, at: At, part: FetchPartition) -> FetchedPartition:
        log = self.logs[at]
        error = self.errors.get(at, 0)
        if self.leaders[at] != node:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not error and not 0 <= part.fetch_offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error:
            return FetchedPartition(at.partition, error, -1)
        epoch, end = log.end_of(part.last_fetched_epoch) if part.last_fetched_epoch >= 0 else (-1, log.end)
        if epoch < part.last_fetched_epoch or end < part.fetch_offset:
            return FetchedPartition(at.partition, 0, log.end, log.stable_end, 0, DivergingEpoch(epoch, end))
        data, aborted = log.fetch(part.fetch_offset, part.partition_max_bytes)
        named = [AbortedTransaction(producer, offset) for producer, offset in aborted]
        return FetchedPartition(at.partition, 0, log.end, log.stable_end, 0, aborted_transactions=named, records=data)


@contextmanager
def running(leaders: dict[At, int], timeout_s: float = TIMEOUT_S) -> Iterator[tuple[Cluster, WireReader]]:
    """The cluster with as many nodes as lead something, and a reader of it."""
    made = Cluster(leaders)
    with ExitStack() as stack:
        for node in sorted(set(leaders.values())):
            made.addresses[node] = stack.enter_context(served(partial(made.answer, node)))
        bootstrap = tuple(made.addresses.values())
        nodes = stack.enter_context(closing(Nodes(bootstrap, Access(), "test", timeout_s, CLOCK)))
        yield made, stack.enter_context(closing(WireReader(nodes, timeout_s, CLOCK)))


def read_until(reader: WireReader, enough: Callable[[list[Read]], bool], records_max: int = 1000) -> list[Read]:
    """Everything that is read until it is enough."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    found: list[Read] = []
    while not enough(found):
        assert CLOCK.monotonic_s() < until_s, found
        found += reader.read(records_max, 0.05)
    return found


def bodies(found: list[Read], at: At) -> list[bytes]:
    return [record[2] for part in found if isinstance(part, Part) and part.at == at for record in part.records]


def read_bodies(reader: WireReader, at: At, count: int) -> list[bytes]:
    return bodies(read_until(reader, lambda found: len(bodies(found, at)) >= count), at)
