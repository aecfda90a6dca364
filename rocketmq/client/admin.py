"""Topics and groups, created and deleted on brokers.

A broker has its own list of topics and tells it to the name servers; a topic on several brokers is created on
each. Creating what is there changes it, and is done as often as wanted.
"""

from rocketmq.client.links import Links
from rocketmq.client.nameservers import NameServers
from rocketmq.client.refusals import check
from rocketmq.errors import Unreachable
from rocketmq.wire.bodies import MASTER_ID, encode_group
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command
from rocketmq.wire.headers.admin import CreateTopic, DeleteSubscriptionGroup, TopicOf


class Administration:
    """Part of `Client`."""

    def __init__(self, links: Links, names: NameServers) -> None:
        self._links = links
        self._names = names

    def brokers(self) -> dict[str, str]:
        """Addresses of all masters, by the broker's name."""
        found = {one.broker: one.addresses.get(MASTER_ID) for one in self._names.cluster()}
        return {name: address for name, address in found.items() if address is not None}

    def create_topic(self, topic: str, broker: str, queues: int, *, message_type: str = "") -> None:
        """With so many queues on this broker. `message_type` is one of RocketMQ's (NORMAL, DELAY ...), which only its
        own proxy holds messages against."""
        attributes = f"+message.type={message_type}" if message_type else None
        header = CreateTopic(topic, queues, queues, attributes=attributes, broker=broker)
        self._ask(broker, Command(Request.UPDATE_AND_CREATE_TOPIC, header.to_fields()))
        self._names.forget(topic)

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

    def _ask(self, broker: str, command: Command) -> Command:
        address = self.brokers().get(broker)
        if address is None:
            raise Unreachable(f"no master of broker {broker} is registered")
        return check(self._links.to(address).ask(command), command)
