"""JSON bodies: routes, cluster, locks, heartbeats, configurations.

What is not known is passed over; what is missing has its default.
(`org.apache.rocketmq.remoting.protocol.{route,body,heartbeat}`)
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from rocketmq.errors import Malformed
from rocketmq.wire.headers.admin import Permission
from rocketmq.wire.lenient import loads_object

MASTER_ID = 0


class Queue(NamedTuple):
    """A queue of a topic on one broker (`MessageQueue`)."""

    topic: str
    broker: str
    queue_id: int


class QueueRange(NamedTuple):
    """How many queues of a topic a broker has (`QueueData`): ids from 0 on."""

    broker: str
    readable: int
    writable: int
    permission: int = int(Permission.READ | Permission.WRITE)
    topic_sys_flag: int = 0


class BrokerAddresses(NamedTuple):
    """Where a broker and its replicas are (`BrokerData`): by broker id, 0 is the master. `has_acting_master`: a
    replica may act for a master that is gone (`enableSlaveActingMaster`, RIP-32)."""

    cluster: str
    broker: str
    addresses: Mapping[int, str]
    has_acting_master: bool = False


class Route(NamedTuple):
    """Of a topic (`TopicRouteData`)."""

    queues: tuple[QueueRange, ...]
    brokers: tuple[BrokerAddresses, ...]
    order_conf: str = ""

    def master_of(self, broker: str) -> str | None:
        """The address that takes writes. Name servers show a replica that acts for its master as 0, and the topic
        without the right to write (`RouteInfoManager.pickupTopicRouteData`): where both may be so there is none. A
        topic that was made read-only looks the same, where replicas may act."""
        found = next((one for one in self.brokers if one.broker == broker), None)
        if found is None or (found.has_acting_master and not self._is_writable(broker)):
            return None
        return found.addresses.get(MASTER_ID)

    def _is_writable(self, broker: str) -> bool:
        return any(one.permission & Permission.WRITE for one in self.queues if one.broker == broker)

    def readable_queues(self, topic: str) -> list[Queue]:
        return [
            Queue(topic, one.broker, number)
            for one in self.queues
            if one.permission & Permission.READ
            for number in range(one.readable)
        ]

    def writable_queues(self, topic: str) -> list[Queue]:
        """Those of brokers that have a master."""
        return [
            Queue(topic, one.broker, number)
            for one in self.queues
            if one.permission & Permission.WRITE and self.master_of(one.broker)
            for number in range(one.writable)
        ]


QUEUES_MAX = 65_536
"""Of a topic on one broker: routes are believed up to here."""


def decode_route(body: bytes | memoryview) -> Route:
    """Raises Malformed."""
    found = loads_object(body)
    return Route(
        tuple(map(_queue_range, _objects(found, "queueDatas"))),
        tuple(map(_addresses, _objects(found, "brokerDatas"))),
        _text(found, "orderTopicConf"),
    )


def encode_route(route: Route) -> bytes:
    """With quoted keys, as name servers of 4.9.4 and later write it when asked to."""
    queues = [
        {
            "brokerName": one.broker,
            "perm": one.permission,
            "readQueueNums": one.readable,
            "topicSysFlag": one.topic_sys_flag,
            "writeQueueNums": one.writable,
        }
        for one in route.queues
    ]
    brokers = [_encoded(one) for one in route.brokers]
    found = {"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues}
    return msgspec.json.encode(found | ({"orderTopicConf": route.order_conf} if route.order_conf else {}))


def decode_cluster(body: bytes | memoryview) -> tuple[BrokerAddresses, ...]:
    """Of GET_BROKER_CLUSTER_INFO. Raises Malformed."""
    table = loads_object(body).get("brokerAddrTable") or {}
    if not isinstance(table, dict):
        raise Malformed("brokerAddrTable that is no object")
    return tuple(_addresses(_object("brokerAddrTable", one)) for one in table.values())


def decode_topic_list(body: bytes | memoryview) -> list[str]:
    """Of GET_ALL_TOPIC_LIST_FROM_NAMESERVER (`TopicList`). Raises Malformed."""
    return _texts(loads_object(body), "topicList")


def decode_topic_attributes(body: bytes | memoryview) -> dict[str, str]:
    """Of GET_TOPIC_CONFIG (`TopicConfig.attributes`): `cleanup.policy` and others. Raises Malformed."""
    found = loads_object(body).get("attributes") or {}
    return {name: str(value) for name, value in _object("attributes", found).items()}


def encode_cluster(brokers: Iterable[BrokerAddresses]) -> bytes:
    clusters: dict[str, list[str]] = {}
    table = {}
    for one in brokers:
        clusters.setdefault(one.cluster, []).append(one.broker)
        table[one.broker] = _encoded(one)
    return msgspec.json.encode({"brokerAddrTable": table, "clusterAddrTable": clusters})


def _encoded(one: BrokerAddresses) -> dict[str, Any]:
    addresses = {str(number): address for number, address in one.addresses.items()}
    found: dict[str, Any] = {"brokerAddrs": addresses, "brokerName": one.broker, "cluster": one.cluster}
    return found | ({"enableActingMaster": True} if one.has_acting_master else {})


def _queue_range(found: Mapping[str, Any]) -> QueueRange:
    return QueueRange(
        _text(found, "brokerName"),
        _number(found, "readQueueNums", QUEUES_MAX),
        _number(found, "writeQueueNums", QUEUES_MAX),
        _number(found, "perm"),
        _number(found, "topicSysFlag"),
    )


def _addresses(found: Mapping[str, Any]) -> BrokerAddresses:
    table = _object("brokerAddrs", found.get("brokerAddrs") or {})
    try:
        addresses = {int(number): str(address) for number, address in table.items()}
    except ValueError:
        raise Malformed("brokerAddrs with a key that is no number") from None
    acts = found.get("enableActingMaster") is True
    return BrokerAddresses(_text(found, "cluster"), _text(found, "brokerName"), addresses, acts)


def decode_master_epoch(body: bytes | memoryview) -> int:
    """Of GET_BROKER_EPOCH_CACHE (`EpochEntryCache`): of the last election. Raises Malformed."""
    epochs = [_number(one, "epoch") for one in _objects(loads_object(body), "epochList")]
    if not epochs:
        raise Malformed("a broker without an epoch")
    return max(epochs)


# --- locks, heartbeats, members


def encode_locks(group: str, client_id: str, queues: Iterable[Queue], *, only_this_broker: bool = True) -> bytes:
    """Of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""
    named = [{"topic": one.topic, "brokerName": one.broker, "queueId": one.queue_id} for one in queues]
    return msgspec.json.encode(
        {"consumerGroup": group, "clientId": client_id, "mqSet": named, "onlyThisBroker": only_this_broker}
    )


def decode_locked(body: bytes | memoryview) -> set[Queue]:
    """The queues that were locked. Raises Malformed."""
    return {
        Queue(_text(one, "topic"), _text(one, "brokerName"), _number(one, "queueId"))
        for one in _objects(loads_object(body), "lockOKMQSet")
    }


class Consumer(NamedTuple):
    """A consumer group's part of a heartbeat: topics with their expressions."""

    group: str
    subscriptions: Mapping[str, str]
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"


def encode_heartbeat(
    client_id: str, producers: Iterable[str] = (), consumers: Iterable[Consumer] = (), sub_version: int = 0
) -> bytes:
    """Of HEART_BEAT. `sub_version` must grow when a subscription changes."""
    return msgspec.json.encode(
        {
            "clientID": client_id,
            "producerDataSet": [{"groupName": group} for group in producers],
            "consumerDataSet": [_consumer(one, sub_version) for one in consumers],
        }
    )


def _consumer(one: Consumer, sub_version: int) -> dict[str, Any]:
    subscriptions = [
        {"topic": topic, "subString": text, "subVersion": sub_version, "expressionType": "TAG"}
        for topic, text in one.subscriptions.items()
    ]
    return {
        "groupName": one.group,
        "consumeType": one.consume_type,
        "messageModel": one.message_model,
        "consumeFromWhere": one.consume_from,
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }


def decode_consumer_ids(body: bytes | memoryview) -> list[str]:
    """Of GET_CONSUMER_LIST_BY_GROUP. Raises Malformed."""
    return _texts(loads_object(body), "consumerIdList")


def encode_group(group: str, *, retry_max: int = 16, ordered: bool = False) -> bytes:
    """Of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
    return msgspec.json.encode(
        {"groupName": group, "retryMaxTimes": retry_max, "consumeMessageOrderly": ordered, "retryQueueNums": 1}
    )


# --- what is read


def _objects(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    values = found.get(name) or []
    if not isinstance(values, list):
        raise Malformed(f"{name} that is no list")
    return [_object(name, one) for one in values]


def _texts(found: Mapping[str, Any], name: str) -> list[str]:
    values = found.get(name) or []
    if not isinstance(values, list):
        raise Malformed(f"{name} that is no list")
    return [str(one) for one in values]


def _object(name: str, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise Malformed(f"{name} with something that is no object")
    return found


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{name} is no text")
    return value or ""


def _number(found: Mapping[str, Any], name: str, most: int = (1 << 31) - 1) -> int:
    value = found.get(name) or 0
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed(f"{name} is no number up to {most}")
    return value
