"""Topics, groups, clients and routes."""

from dataclasses import dataclass
from enum import IntFlag

from rocketmq.wire.headers.send import DEFAULT_TOPIC
from rocketmq.wire.schema import Fields, named


class Permission(IntFlag):
    """Of a topic on a broker (`PermName`)."""

    INHERIT = 0x1
    WRITE = 0x2
    READ = 0x4
    PRIORITY = 0x8


@dataclass(frozen=True, slots=True)
class GetRouteInfo(Fields):
    """GET_ROUTEINFO_BY_TOPIC. `accept_standard_json_only` asks name servers of 4.9.4 and later for quoted keys."""

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True)
class CreateTopic(Fields):
    """UPDATE_AND_CREATE_TOPIC. `attributes` as `+message.type=DELAY`, separated by commas."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = int(Permission.READ | Permission.WRITE)
    default_topic: str = DEFAULT_TOPIC
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class TopicOf(Fields):
    """DELETE_TOPIC_IN_BROKER, DELETE_TOPIC_IN_NAMESRV, GET_TOPIC_CONFIG."""

    topic: str
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class GroupOf(Fields):
    """GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class DeleteSubscriptionGroup(Fields):
    """DELETE_SUBSCRIPTIONGROUP. `clean_offset`: and forget what it has committed."""

    group_name: str
    clean_offset: bool = False
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class ConsumersOf(Fields):
    """GET_CONSUMER_LIST_BY_GROUP, and the push NOTIFY_CONSUMER_IDS_CHANGED."""

    consumer_group: str
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class ConsumerRunningInfo(Fields):
    """GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False
    broker: str | None = named("bname", None)


@dataclass(frozen=True, slots=True)
class UnregisterClient(Fields):
    """UNREGISTER_CLIENT, of one group, or of all of the connection's."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None
    broker: str | None = named("bname", None)
