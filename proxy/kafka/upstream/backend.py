"""What the proxy asks brokers in its own name, on connections of its own: nodes, leaders, settings."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from delayline.clock import Clock
from delayline.process import logs
from kafkawire.client.address import Address
from kafkawire.client.aio import AsyncConnection, connect
from kafkawire.protocol.errors import AnswerLost, ErrorCode, NotAuthenticated, TopicMissing, Unreachable
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.facts import ConfigsAsked, DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataTopic, MetadataTopicName
from proxy.kafka.settings import ProxySettings
from proxy.kafka.view.refuse import TOPIC_RESOURCE
from proxy.kafka.view.topology import NodeWithoutPort, Topology

A = TypeVar("A", bound=Message)

CONNECTIONS_MAX = 4
"""To one node: a broker carries out one connection's requests one after the other."""

METADATA_VERSION = 12
CONFIGS_VERSION = 4

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Leader:
    """Of one partition; `replicas` is how many nodes hold it."""

    node_id: int
    epoch: int
    replicas: int


class Backend:
    """One per event loop. Everything raises Unreachable, AnswerLost, NotAuthenticated and Malformed."""

    def __init__(self, settings: ProxySettings, topology: Topology, clock: Clock) -> None:
        self._settings = settings
        self._topology = topology
        self._clock = clock
        self._client_id = f"{settings.names.namespace}-proxy"
        self._pools: dict[int | None, list[AsyncConnection]] = {}
        self._opening: dict[int | None, asyncio.Task[AsyncConnection]] = {}
        self._leaders: dict[str, tuple[Leader | None, ...]] = {}  # bounded by the delay-enabled topics
        self._next_server = 0

    def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        for pool in self._pools.values():
            for connection in pool:
                connection.close()

    # --- connections

    async def ask(self, node_id: int | None, request: Message, version: int, answer: type[A]) -> A:
        """The answer of this node; None: of any."""
        connection = await self._connection(node_id)
        return await connection.ask(request, version, answer, self._settings.request_timeout_s)

    async def _connection(self, node_id: int | None) -> AsyncConnection:
        pool = self._pools.setdefault(node_id, [])
        now_s = self._clock.monotonic_s()
        pool[:] = [one for one in pool if one.is_open and (one.use_until_s > now_s or one.in_flight)]
        usable = [one for one in pool if one.use_until_s > now_s]
        best = min(usable, key=lambda one: one.in_flight, default=None)
        if best is not None and (not best.in_flight or len(usable) >= CONNECTIONS_MAX):
            return best
        task = self._opening.get(node_id)
        if task is None:
            task = self._opening[node_id] = asyncio.create_task(self._open(node_id))
            task.add_done_callback(lambda done: self._opened(node_id, done))
        return best if best is not None else await asyncio.shield(task)

    def _opened(self, node_id: int | None, task: "asyncio.Task[AsyncConnection]") -> None:
        del self._opening[node_id]
        if not task.cancelled() and task.exception() is None:
            self._pools.setdefault(node_id, []).append(task.result())

    async def _open(self, node_id: int | None) -> AsyncConnection:
        settings = self._settings
        tried = self.servers() if node_id is None else [await self._address(node_id)]
        trouble: Exception = Unreachable("no server is known")
        for address in tried:
            try:
                return await connect(
                    address, settings.access.own, self._client_id, settings.connect_timeout_s, self._clock
                )
            except (Unreachable, NotAuthenticated) as error:
                trouble = error
        raise trouble

    def servers(self) -> list[Address]:
        """Where to begin: another bootstrap server each time, then the others, then the nodes that are known."""
        bootstrap = list(self._settings.bootstrap)
        first = self._next_server % len(bootstrap)
        self._next_server += 1
        known = [one for one in self._topology.nodes.values() if one not in bootstrap]
        return [*bootstrap[first:], *bootstrap[:first], *known]

    async def _address(self, node_id: int) -> Address:
        if (address := self._topology.address(node_id)) is None:
            await self.learn_nodes()
            address = self._topology.address(node_id)
        if address is None:
            raise Unreachable(f"the cluster has no node {node_id}")
        return address

    # --- the cluster

    async def learn_nodes(self) -> None:
        """Ask for the nodes that there are."""
        await self._metadata([])

    async def hidden_topic_ids(self) -> set[bytes]:
        """Ids of this installation's own topics but those of groups."""
        found = await self._metadata(None)
        is_hidden = self._settings.names.is_hidden
        return {bytes(topic.topic_id) for topic in found if topic.name and is_hidden(topic.name)}

    async def _metadata(self, names: list[str] | None) -> list[MetadataTopic]:
        topics = None if names is None else [MetadataTopicName(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await self.ask(None, request, METADATA_VERSION, MetadataResponse)
        for broker in answer.brokers:
            try:
                self._topology.advertise(broker.node_id, Address(broker.host, broker.port))
            except NodeWithoutPort as error:
                log.error("a node cannot be reached through the proxy", detail=str(error))
        return answer.topics

    async def leader(self, topic: str, partition: int) -> Leader:
        """As it was last seen. Raises TopicMissing, and Unreachable where there is none right now."""
        if topic not in self._leaders:
            self._leaders[topic] = await self._find_leaders(topic)
        leaders = self._leaders[topic]
        found = leaders[partition] if partition < len(leaders) else None
        if found is None or found.node_id < 0:
            self.forget(topic)
            if partition >= len(leaders):
                raise TopicMissing(f"{topic} has no partition {partition}")
            raise Unreachable(f"{topic}, partition {partition}: no leader")
        return found

    def forget(self, topic: str) -> None:
        """Its leaders are not where they were thought to be."""
        self._leaders.pop(topic, None)

    async def _find_leaders(self, topic: str) -> tuple[Leader | None, ...]:
        (found,) = await self._metadata([topic])
        if found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            raise TopicMissing(f"{topic}: error {found.error_code}")
        leaders: list[Leader | None] = [None] * (
            1 + max((one.partition_index for one in found.partitions), default=-1)
        )
        for one in found.partitions:
            leaders[one.partition_index] = Leader(one.leader_id, one.leader_epoch, len(one.replica_nodes))
        return tuple(leaders)

    async def topic_config(self, topic: str, *keys: str) -> dict[str, str]:
        """Settings of a topic, defaults included. Raises TopicMissing, and Unreachable where they are not
        answered."""
        request = DescribeConfigsRequest(resources=[ConfigsAsked(TOPIC_RESOURCE, topic, list(keys))])
        answer = await self.ask(None, request, CONFIGS_VERSION, DescribeConfigsResponse)
        (found,) = answer.results
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicMissing(topic)
        values = {one.name: one.value or "" for one in found.configs}
        if found.error_code or not values.keys() >= set(keys):
            raise Unreachable(f"settings of {topic}: error {found.error_code}")
        return values


RAISED = (Unreachable, AnswerLost, NotAuthenticated)
"""By everything that asks a broker."""
