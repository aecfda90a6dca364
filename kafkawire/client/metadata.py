"""Where brokers, leaders and coordinators are, and connections to them. Any thread may ask, and waits for the
answer."""

from threading import RLock
from typing import TypeVar

from delayline.clock import Clock
from delayline.process import logs
from kafkawire.client.address import Address
from kafkawire.client.blocking import Connection, connect
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import AnswerLost, ErrorCode, NotAuthenticated, TopicMissing, Unreachable
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopic, MetadataTopicName
from kafkawire.security.access import Access

A = TypeVar("A", bound=Message)

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators (FindCoordinator, key type)."""

METADATA_VERSIONS = (9, 12)
COORDINATOR_VERSIONS = (4, 6)
"""Oldest and newest that are spoken: from brokers 2.4 and 3.0 on."""

NO_LEADER = -1

log = logs.get(__name__)


class Nodes:
    """What it has learned is kept until `forget`."""

    def __init__(
        self, bootstrap: tuple[Address, ...], access: Access, client_id: str, timeout_s: float, clock: Clock
    ) -> None:
        self._bootstrap = bootstrap
        self._access = access
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = RLock()  # of what was learned, and of the connection that is asked
        self.addresses: dict[int, Address] = {}  # bounded by the cluster's nodes
        self.leaders: dict[str, dict[int, int]] = {}  # and by its topics, by partition
        self.coordinators: dict[tuple[int, str], int] = {}
        self._asked: Connection | None = None
        self._next_server = 0

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    # --- leaders

    def known_leader(self, topic: str, partition: int) -> int | None:
        """Does not wait; None where it would have to be asked for."""
        # Without the lock: a topic's dict is replaced whole, never changed, so a reader sees the old or the new one.
        found = self.leaders.get(topic, {}).get(partition, NO_LEADER)
        return None if found == NO_LEADER else found

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads the partition. Raises TopicMissing, and Unreachable where there is none right now or
        no broker answers; AnswerLost, NotAuthenticated, UnsupportedVersion."""
        found = self.known_leader(topic, partition)
        if found is not None:
            return found
        with self._lock:
            found = self.known_leader(topic, partition)
            if found is not None:
                return found
            # Looked up again above, under the lock: of many threads that miss the same topic one asks.
            leaders = self._find_leaders(topic)
        if partition not in leaders:
            raise TopicMissing(f"{topic} has no partition {partition}")
        if leaders[partition] == NO_LEADER:
            raise Unreachable(f"{topic}, partition {partition}: no leader")
        return leaders[partition]

    def forget(self, topic: str) -> None:
        """Its leaders are not where they were thought to be."""
        # The whole topic: leaders of its other partitions have often moved with it, when a node went.
        self.leaders.pop(topic, None)

    def _find_leaders(self, topic: str) -> dict[int, int]:
        found = next((one for one in self._metadata([topic]) if one.name == topic), None)
        if found is None:
            raise Unreachable(f"{topic}: the broker answers nothing about it")
        if found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise TopicMissing(f"{topic}: error {found.error_code}")
        self.leaders[topic] = {one.partition_index: max(one.leader_id, NO_LEADER) for one in found.partitions}
        return self.leaders[topic]

    def all_leaders(self) -> dict[tuple[str, int], int]:
        """Of every topic, as they are now: by topic and partition, NO_LEADER where there is none. Raises as `leader`
        does."""
        with self._lock:
            found = self._metadata(None)
        return {
            (topic.name, one.partition_index): max(one.leader_id, NO_LEADER)
            for topic in found
            if topic.name and not topic.error_code
            for one in topic.partitions
        }

    def ids(self) -> list[int]:
        """Every node that is there now. Raises as `leader` does."""
        with self._lock:
            self._metadata([])
            return sorted(self.addresses)

    def _metadata(self, names: list[str] | None) -> list[MetadataTopic]:
        """None for all of them."""
        oldest, newest = METADATA_VERSIONS
        asked = self.any_connection()
        version = asked.version(ApiKey.METADATA, newest, oldest)
        topics = None if names is None else [MetadataTopicName(name=name) for name in names]
        # A lookup must not create topics: a deleted topic would come back, with the broker's default partitions.
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = self._ask(asked, request, version, MetadataResponse)
        # Replaced, not merged: a node that has left must not be dialled for ever.
        self.addresses = {one.node_id: Address(one.host, one.port) for one in answer.brokers}
        return answer.topics

    # --- coordinators

    def coordinator(self, kind: int, key: str) -> int:
        """The node that coordinates the group or the transactions of this name. Raises as `leader` does."""
        with self._lock:
            if (kind, key) not in self.coordinators:
                self.coordinators[kind, key] = self._find_coordinator(kind, key)
            return self.coordinators[kind, key]

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It is not where it was thought to be."""
        with self._lock:
            self.coordinators.pop((kind, key), None)

    def _find_coordinator(self, kind: int, key: str) -> int:
        oldest, newest = COORDINATOR_VERSIONS
        asked = self.any_connection()
        version = asked.version(ApiKey.FIND_COORDINATOR, newest, oldest)
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = self._ask(asked, request, version, FindCoordinatorResponse)
        found = next((one for one in answer.coordinators if one.key == key), None)
        # Some brokers answer node -1 without an error while the coordinator moves.
        if found is None or (found.node_id < 0 and not found.error_code):
            raise Unreachable(f"the coordinator of {key}: the broker names none")
        if found.error_code:
            raise Unreachable(f"the coordinator of {key}: {found.error_message or f'error {found.error_code}'}")
        self.addresses[found.node_id] = Address(found.host, found.port)
        return found.node_id

    # --- connections

    def connect(self, node_id: int) -> Connection:
        """A new connection to this node, for the caller alone. Raises as `leader` does."""
        address = self.addresses.get(node_id)
        if address is None:
            with self._lock:
                self._metadata([])
                address = self.addresses.get(node_id)
        if address is None:
            raise Unreachable(f"the cluster has no node {node_id}")
        return self._connect(address)

    def _connect_any(self) -> Connection:
        """A new connection to whichever server answers first. Raises as `leader` does."""
        trouble: Exception = Unreachable("no server is known")
        for address in self._servers():
            try:
                return self._connect(address)
            except (Unreachable, NotAuthenticated) as error:
                trouble = error
        raise trouble

    def _connect(self, address: Address) -> Connection:
        return connect(address, self._access, self._client_id, self._timeout_s, self._clock)

    def _servers(self) -> list[Address]:
        """Where to begin: another bootstrap server each time, then the others, then the nodes that are known."""
        first = self._next_server % len(self._bootstrap)
        # In turn: a first bootstrap server that hangs would cost every lookup its timeout.
        self._next_server += 1
        # Also the learned nodes: the bootstrap servers may all have been replaced since this process started.
        known = [one for one in self.addresses.values() if one not in self._bootstrap]
        return [*self._bootstrap[first:], *self._bootstrap[:first], *known]

    def any_connection(self) -> Connection:
        """The connection that is asked in turn with everybody else's questions."""
        if self._asked is not None and self._asked.use_until_s < self._clock.monotonic_s():
            self._hang_up()
        if self._asked is None or not self._asked.is_open:
            self._asked = self._connect_any()
        return self._asked

    def _ask(self, asked: Connection, request: Message, version: int, answer: type[A]) -> A:
        """Nothing that is asked here changes anything: once more where the answer is lost."""
        try:
            return asked.ask(request, version, answer)
        except (Unreachable, AnswerLost) as error:
            self._hang_up()
            log.debug("asking another broker", detail=str(error))
            # Once only: two brokers that do not answer are trouble that the caller has to wait out.
            return self.any_connection().ask(request, version, answer)

    def _hang_up(self) -> None:
        if self._asked is not None:
            self._asked.close()
            self._asked = None
