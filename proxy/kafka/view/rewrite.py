"""What the proxy changes in answers on their way to the client: versions, addresses, hidden topics.

`response_is_read` selects the answers that have to be looked at; every other one passes as it is. Only what must
change is decoded (of a Metadata answer the brokers, and of its topics the names), so that one of half a megabyte does
not hold the event loop.

    answer of                 what is changed
    ApiVersions               versions
    Metadata                  addresses, topics
    DescribeTopicPartitions   topics
    FindCoordinator           addresses
    DescribeCluster           addresses of brokers; those of controllers are none of ours
    Produce 10+               addresses of new leaders, in a tagged field (KIP-951)
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.client.address import Address
from kafkawire.protocol.apis import APIS, ApiKey, is_flexible
from kafkawire.protocol.codec import codec_of
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import decode, encode
from kafkawire.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsResponse,
    ClusterBroker,
    Coordinator,
    DescribeClusterResponse,
    FindCoordinatorResponse,
)
from kafkawire.protocol.messages.metadata import (
    DescribedTopic,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataBroker,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    TopicCursor,
)
from kafkawire.protocol.messages.produce import NodeEndpoint, ProduceResponse
from kafkawire.protocol.primitives import Buffer, Reader, Writer
from kafkawire.protocol.slices import elements, slices, write_elements

NODE_ENDPOINTS_SINCE = 10
CONCEALED = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})
"""Requests that go through `conceal`."""

BROKERS = 1
"""DescribeCluster's endpoint type (KIP-919); 2 are controllers."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The topics that clients must not see.

    `is_hidden` decides by name. `mark` is what every hidden name begins with: bytes without it hold none, which is
    found out at gigabytes per second. `ids` are the hidden topics' ids as far as they are known (Metadata 10+); its
    owner may add to it. `shown` are longer beginnings, of names that are not hidden all the same.
    """

    is_hidden: Callable[[str], bool]
    mark: bytes
    ids: Collection[Buffer] = frozenset()
    shown: Sequence[str] = ()
    _pattern: "re.Pattern[bytes]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", re.compile(re.escape(self.mark)))

    def may_be_in(self, data: Buffer) -> bool:
        return self._pattern.search(data) is not None

    def behind(self, name: str) -> str:
        """The least string behind a hidden name behind which a name may not be hidden."""
        end = (self.mark[:-1] + bytes([self.mark[-1] + 1])).decode()
        return min((prefix for prefix in self.shown if prefix > name), default=end)


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as clients are to see it. `address_of(node id, real address)` is asked for every address that is
    passed on, which is also how its owner learns of nodes."""

    address_of: Callable[[int, Address], Address]
    hidden: Hidden


def response_is_read(api_key: int, version: int) -> bool:
    """Whether the answer to such a request has to go through `rewrite_response`."""
    return api_key in _REWRITES and (api_key != ApiKey.PRODUCE or version >= NODE_ENDPOINTS_SINCE)


def rewrite_response(
    api_key: int, version: int, body: memoryview, view: View, asked: Collection[str] = ()
) -> list[Buffer]:
    """The body to send instead of `body`. `asked` are the hidden topics that the request named (`conceal`): they are
    answered as not existing, the others are left out. Raises Malformed."""
    return _REWRITES[ApiKey(api_key)](version, body, view, asked)


# --- versions


def _limit_versions(version: int, body: memoryview, _view: View, _asked: Collection[str]) -> list[Buffer]:
    """To a request of a version that it does not know a broker answers in version 0, with error 35 (KIP-511)."""
    if body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0
    answer = decode(ApiVersionsResponse, version, body)
    answer.api_keys = list(_limited(answer.api_keys))
    return encode(answer, version)


def _limited(offered: list[ApiVersion]) -> Iterator[ApiVersion]:
    """Those that both the broker and the proxy have."""
    for row in offered:
        if (api := APIS.get(row.api_key)) is not None:
            oldest, newest = max(row.min_version, api.oldest), min(row.max_version, api.newest)
            if oldest <= newest:
                yield ApiVersion(row.api_key, oldest, newest)


def unsupported_version() -> list[Buffer]:
    """The body, in version 0, that answers an ApiVersions request of a version that the proxy does not have."""
    api = APIS[ApiKey.API_VERSIONS]
    row = ApiVersion(api.key, api.oldest, api.newest)
    return encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row]), 0)


# --- addresses


def _readdress(node: MetadataBroker | Coordinator | NodeEndpoint | FindCoordinatorResponse, view: View) -> None:
    """An answer without a node has id -1 and no host."""
    if node.node_id >= 0 and node.host:
        node.host, node.port = view.address_of(node.node_id, Address(node.host, node.port))


def _find_coordinator(version: int, body: memoryview, view: View, _asked: Collection[str]) -> list[Buffer]:
    answer = decode(FindCoordinatorResponse, version, body)
    _readdress(answer, view)
    for coordinator in answer.coordinators:
        _readdress(coordinator, view)
    return encode(answer, version)


def _describe_cluster(version: int, body: memoryview, view: View, _asked: Collection[str]) -> list[Buffer]:
    answer = decode(DescribeClusterResponse, version, body)
    if answer.endpoint_type == BROKERS:
        for broker in answer.brokers:
            _readdress_broker(broker, view)
    return encode(answer, version)


def _readdress_broker(broker: ClusterBroker, view: View) -> None:
    broker.host, broker.port = view.address_of(broker.broker_id, Address(broker.host, broker.port))


def _produce(version: int, body: memoryview, view: View, _asked: Collection[str]) -> list[Buffer]:
    answer = decode(ProduceResponse, version, body)
    if not answer.node_endpoints:
        return [body]
    readdress_endpoints(answer, view)
    return encode(answer, version)


def readdress_endpoints(answer: ProduceResponse, view: View) -> None:
    """In an answer that is put together here: the addresses that came from brokers, as clients are to see them."""
    for endpoint in answer.node_endpoints:
        _readdress(endpoint, view)


# --- topics


def _metadata(version: int, body: memoryview, view: View, asked: Collection[str]) -> list[Buffer]:
    flexible = is_flexible(ApiKey.METADATA, version)
    fields, tags = slices(MetadataResponse, version, flexible, body)
    writer = Writer()
    for name, codec, data in fields:
        if name == "brokers":
            brokers: list[MetadataBroker] = codec.read(Reader(data))
            for broker in brokers:
                _readdress(broker, view)
            codec.write(writer, brokers)
        elif name == "topics":
            _conceal_topics(writer, MetadataTopic, version, flexible, data, view.hidden, asked)
        else:
            writer.splice(data)
    writer.splice(tags)
    return writer.finish()


def _describe_topic_partitions(version: int, body: memoryview, view: View, asked: Collection[str]) -> list[Buffer]:
    fields, tags = slices(DescribeTopicPartitionsResponse, version, True, body)
    writer = Writer()
    for name, codec, data in fields:
        if name == "topics":
            _conceal_topics(writer, DescribedTopic, version, True, data, view.hidden, asked)
        elif name == "next_cursor":
            codec.write(writer, _conceal_cursor(codec.read(Reader(data)), view.hidden))
        else:
            writer.splice(data)
    writer.splice(tags)
    return writer.finish()


def _conceal_cursor(cursor: TopicCursor | None, hidden: Hidden) -> TopicCursor | None:
    """A list of all topics goes on where the next one is that is shown. A broker leaves out what is no topic."""
    if cursor is None or not hidden.is_hidden(cursor.topic_name):
        return cursor
    return TopicCursor(hidden.behind(cursor.topic_name), 0)


def _conceal_topics(
    writer: Writer,
    cls: type[MetadataTopic | DescribedTopic],
    version: int,
    flexible: bool,
    data: memoryview,
    hidden: Hidden,
    asked: Collection[str],
) -> None:
    """Write the array `data` without what is hidden; `asked` topics are in it as unknown ones."""
    if not asked and not hidden.may_be_in(data):
        writer.splice(data)
        return
    kept: list[Buffer] = [
        topic
        for name, topic in elements(cls, version, flexible, data, "name")
        if name is None or not hidden.is_hidden(name)
    ]
    for name in asked:
        entry = Writer()
        unknown = cls(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        codec_of(cls, version, flexible).write(entry, unknown)
        kept += entry.finish()
    write_elements(writer, flexible, kept)


class Concealed(NamedTuple):
    """A request to forward instead of the one that came, and what `rewrite_response` needs to know about it."""

    body: list[Buffer]
    asked: tuple[str, ...]


def conceal(api_key: int, version: int, body: memoryview, hidden: Hidden) -> Concealed:
    """A Metadata or DescribeTopicPartitions request without the hidden topics that it names; any other as it is.

    They are taken out of Metadata, because a broker may make a topic that is asked for. (In version 0 no topics left
    means all topics: the client gets more than it asked for, and nothing hidden.) In the other one they stay: there
    an empty list means all topics in its only version. Raises Malformed and UnsupportedVersion.
    """
    if api_key not in CONCEALED or not hidden.may_be_in(body):
        return Concealed([body], ())
    if api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        described = decode(DescribeTopicPartitionsRequest, version, body)
        return Concealed([body], tuple(topic.name for topic in described.topics if hidden.is_hidden(topic.name)))
    request = decode(MetadataRequest, version, body)
    names = [topic.name for topic in request.topics or ()]
    asked = tuple(name for name in names if name is not None and hidden.is_hidden(name))
    if not asked:
        return Concealed([body], ())
    request.topics = [topic for topic in request.topics or () if topic.name not in asked]
    return Concealed(encode(request, version), asked)


_Rewrite = Callable[[int, memoryview, View, Collection[str]], list[Buffer]]

_REWRITES: dict[ApiKey, _Rewrite] = {
    ApiKey.API_VERSIONS: _limit_versions,
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.PRODUCE: _produce,
}
