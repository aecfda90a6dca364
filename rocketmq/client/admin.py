"""Topics and groups, created and deleted on brokers.

A broker has its own list of topics and reports it to the name servers; a topic on several brokers is created on
each. Creating what is there changes it, and is done as often as wanted.
"""

from collections.abc import Iterable
from concurrent.futures import as_completed
from contextlib import suppress

from rocketmq.client.links import Links
from rocketmq.client.nameservers import NameServers
from rocketmq.client.refusals import check
from rocketmq.errors import Malformed, Unreachable
from rocketmq.wire.bodies import (
    MASTER_ID,
    Queue,
    decode_locked,
    decode_master_epoch,
    decode_topic_attributes,
    encode_group,
    encode_locks,
)
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import CreateTopic, DeleteSubscriptionGroup, Permission, TopicOf
from rocketmq.wire.lenient import loads_object


class Administration:
    """Part of `Client`."""

    def __init__(self, links: Links, names: NameServers) -> None:
        self._links = links
        self._names = names

    def brokers(self) -> dict[str, str]:
        """Addresses of all masters, by the broker's name."""
        found = {one.broker: one.addresses.get(MASTER_ID) for one in self._names.cluster()}
        return {name: address for name, address in found.items() if address is not None}

    def topics(self) -> list[str]:
        """Names of all topics, RocketMQ's own among them."""
        return self._names.topics()

    def create_topic(
        self,
        topic: str,
        broker: str,
        queues: int,
        *,
        message_type: str = "",
        sys_flag: int | None = None,
        permission: Permission = Permission.READ | Permission.WRITE,
    ) -> None:
        """With so many queues on this broker. `message_type` is one of RocketMQ's (NORMAL, DELAY ...), which only its
        own proxy holds messages against. Of `sys_flag` RocketMQ reads two bits (`TopicSysFlag`), and hands out the
        rest as it is."""
        attributes = f"+message.type={message_type}" if message_type else None
        header = CreateTopic(
            topic,
            queues,
            queues,
            perm=int(permission),
            topic_sys_flag=sys_flag,
            attributes=attributes,
            broker=broker,
        )
        self._ask(broker, Command(Request.UPDATE_AND_CREATE_TOPIC, header.to_fields()))
        self._names.forget(topic)

    def topic_attributes(self, topic: str, broker: str) -> dict[str, str]:
        """The topic's attributes on this broker, without those that have their defaults."""
        answer = self._ask(broker, Command(Request.GET_TOPIC_CONFIG, TopicOf(topic).to_fields()))
        return decode_topic_attributes(answer.body)

    def delete_topic(self, topic: str, broker: str) -> None:
        """From this broker; the name servers keep its route until they learn of it, or the broker registers again."""
        self._ask(broker, Command(Request.DELETE_TOPIC_IN_BROKER, TopicOf(topic).to_fields()))
        self._names.forget(topic)

    def create_group(self, group: str, broker: str, *, retry_max: int = 16, ordered: bool = False) -> None:
        body = encode_group(group, retry_max=retry_max, ordered=ordered)
        self._ask(broker, Command(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))

    def delete_group(self, group: str, broker: str, *, with_offsets: bool = False) -> None:
        header = DeleteSubscriptionGroup(group, with_offsets)
        self._ask(broker, Command(Request.DELETE_SUBSCRIPTIONGROUP, header.to_fields()))

    def any_answers(self, addresses: Iterable[str], timeout_s: float) -> bool:
        """Whether one of the brokers at these addresses answers, be it with a refusal."""
        asked = set()
        for address in addresses:
            with suppress(Unreachable):
                asked.add(self._links.to(address).start(Command(Request.GET_BROKER_CONFIG), timeout_s))
        return any(one.exception() is None for one in as_completed(asked))

    def configuration(self, broker: str) -> dict[str, str]:
        """The broker's settings (`Properties` of Java, of which the broker escapes nothing)."""
        answer = self._ask(broker, Command(Request.GET_BROKER_CONFIG))
        lines = str(answer.body, "utf-8", "replace").splitlines()
        pairs = (line.partition("=") for line in lines if not line.startswith("#"))
        return {name.strip(): value.strip() for name, separator, value in pairs if separator}

    def runtime(self, broker: str) -> dict[str, str]:
        """Figures of the broker as it runs (`BrokerRuntimeInfo`), such as `bootTimestamp`, in epoch ms."""
        found = loads_object(self._ask(broker, Command(Request.GET_BROKER_RUNTIME_INFO)).body).get("table", {})
        if not isinstance(found, dict):
            raise Malformed("figures of a broker that are no table")
        return {str(name): str(value) for name, value in found.items()}

    def master_epoch(self, broker: str) -> int:
        """Which election has made it the master (RIP-44). Raises Refused where there is no controller."""
        return decode_master_epoch(self._ask(broker, Command(Request.GET_BROKER_EPOCH_CACHE)).body)

    def lock(self, broker: str, name: str, client_id: str) -> bool:
        """Whether the lock of this name, which ends by itself after a minute, is this client's on the broker now."""
        wanted = [Queue(name, broker, 0)]
        answer = self._ask(broker, Command(Request.LOCK_BATCH_MQ, body=encode_locks(name, client_id, wanted)))
        return decode_locked(answer.body) == set(wanted)

    def unlock(self, broker: str, name: str, client_id: str) -> None:
        """Give it back."""
        body = encode_locks(name, client_id, [Queue(name, broker, 0)])
        self._ask(broker, Command(Request.UNLOCK_BATCH_MQ, body=body))

    def _ask(self, broker: str, command: Command) -> Command:
        address = self.brokers().get(broker)
        if address is None:
            raise Unreachable(f"no master of broker {broker} is registered")
        return check(self._links.to(address).ask(command), command)
