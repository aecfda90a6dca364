"""Buffer topics: made right, kept right. And what may be set."""

import pytest

from delayline.errors import ConfigError
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.broker_clock import WINDOW_S, BrokerClock
from mq.contract import HEADER_ROOM_BYTES, Append
from mq.errors import TopicUnknown
from mq.kafka.settings import KafkaSettings
from tests.integration.kafka.conftest import PATIENCE_S, Place, body, soon


def test_a_buffer_topic_keeps_everything_and_is_stamped_by_the_broker(place: Place) -> None:
    place.make_topic(3, max_message_bytes="5000", min_insync_replicas="1")
    queue = place.queue()
    name = queue.ensure_buffer(place.topic, DEFAULT_RULES).name
    config = queue.cluster.config(name)
    assert (config["retention.ms"], config["retention.bytes"], config["cleanup.policy"]) == ("-1", "-1", "delete")
    assert config["message.timestamp.type"] == "LogAppendTime"
    assert int(config["max.message.bytes"]) == 5000 + HEADER_ROOM_BYTES
    assert len(queue.topic(name).partitions) == 3


def test_settings_altered_by_hand_are_repaired(place: Place) -> None:
    place.make_topic()
    queue = place.queue(tend_interval_s=0.2)
    name = queue.ensure_buffer(place.topic, DEFAULT_RULES).name
    place.worker(queue)
    queue.cluster.configure(name, {"retention.ms": "1000", "cleanup.policy": "compact"})

    def is_right() -> bool:
        found = queue.cluster.config(name)
        return (found["retention.ms"], found["cleanup.policy"]) == ("-1", "delete")

    soon(is_right)  # both at once: a broker may still show what was before the change


def test_the_audit_is_kept_for_a_month_of_the_brokers_time_or_longer(place: Place) -> None:
    place.make_topic()
    queue = place.queue(tend_interval_s=0.2)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    name = f"{place.namespace}.audit"
    made = queue.cluster.config(name)
    place.worker(queue)
    month = str(30 * 86_400_000)
    assert (made["retention.ms"], made["message.timestamp.type"], made["compression.type"]) == (
        month,
        "LogAppendTime",
        "zstd",
    )

    def kept(*names: str) -> tuple[str, ...]:
        """A broker shows a change some time after it has taken it."""
        found = queue.cluster.config(name)
        return tuple(found[one] for one in names)

    queue.cluster.configure(name, {"retention.ms": "1000", "message.timestamp.type": "CreateTime"})
    soon(lambda: kept("retention.ms", "message.timestamp.type") == (month, "LogAppendTime"))

    def kept_for_ever() -> bool:
        """A repair that has begun before may write the month once more."""
        if kept("retention.ms") != ("-1",):
            queue.cluster.configure(name, {"retention.ms": "-1", "compression.type": "gzip"})
        return kept("retention.ms", "compression.type") == ("-1", "zstd")

    soon(kept_for_ever)


def test_partitions_added_to_the_topic_are_added_to_its_buffer_and_assigned(place: Place) -> None:
    place.make_topic(2)
    queue = place.queue(tend_interval_s=0.2)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    worker.assigned(2)
    queue.cluster.grow(place.topic, 5)
    assert sorted(worker.assigned(5)) == [Shard(place.topic, str(number)) for number in range(5)]


def test_where_topics_may_not_be_made_the_missing_one_is_named(place: Place) -> None:
    place.make_topic()
    with pytest.raises(TopicUnknown, match="topics_create"):
        place.queue(topics_create=False).open_worker("w")


def test_a_topic_of_users_is_never_made(place: Place) -> None:
    queue = place.queue()
    with pytest.raises(TopicUnknown):
        queue.ensure_topic(place.topic)
    with pytest.raises(TopicUnknown):
        queue.ensure_buffer(place.topic, DEFAULT_RULES)
    assert place.topic not in queue.topics()


def test_a_target_that_asks_for_more_replicas_than_it_has_is_in_order_with_all_of_them(place: Place) -> None:
    place.make_topic(1, min_insync_replicas="2")
    assert place.queue().target_trouble(place.shard) is None


@pytest.mark.parametrize("name", ["isolation.level", "transactional.id", "group.protocol", "enable.auto.commit"])
def test_a_property_that_promises_hang_on_cannot_be_set(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        KafkaSettings(bootstrap_servers="127.0.0.1:1", properties={name: "x"})


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}


def test_properties_reach_every_client(place: Place) -> None:
    """With SASL, a client that lacked them could not even connect."""
    place.make_topic()
    properties = {**SASL, "sasl.password": "alice-secret"}
    queue = place.queue(bootstrap_servers=place.kafka.sasl_servers, properties=properties)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    worker.assigned(2)
    worker.claim(place.shard)
    worker.source.seek(place.shard, 0)
    queue.append([Append(place.buffer, "0", body(b"a")), Append(place.buffer, "0", body(b"b"))]).result(PATIENCE_S)
    assert len(worker.read(place.shard, 2)) == 2
    assert len(queue.read(place.buffer, "0", 0, 10)) == 2


class Clocks:
    """A machine's clock and a broker's that is so far behind it."""

    def __init__(self, behind_ms: int) -> None:
        self.now_s = 1000.0
        self.behind_ms = behind_ms

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def broker_ms(self) -> int:
        return self.now_ms() - self.behind_ms


def test_a_machine_ahead_of_the_broker_holds_back_by_as_much() -> None:
    clocks = Clocks(behind_ms=700)
    brokers = BrokerClock(clocks)
    brokers.heard(1, clocks.broker_ms())
    clocks.now_s += 5
    assert brokers.now_ms(1) == clocks.broker_ms()


def test_a_machine_behind_the_broker_keeps_its_own_time() -> None:
    clocks = Clocks(behind_ms=-700)
    brokers = BrokerClock(clocks)
    brokers.heard(1, clocks.broker_ms())
    assert brokers.now_ms(1) == clocks.now_ms()


def test_an_old_record_does_not_show_the_time_now() -> None:
    clocks = Clocks(behind_ms=100)
    brokers = BrokerClock(clocks)
    brokers.heard(1, clocks.broker_ms())
    brokers.heard(1, clocks.broker_ms() - 3_600_000)
    assert brokers.now_ms(1) == clocks.broker_ms()


def test_a_leader_never_heard_is_not_ahead_of_those_that_were() -> None:
    clocks = Clocks(behind_ms=100)
    brokers = BrokerClock(clocks)
    brokers.heard(1, clocks.broker_ms())
    brokers.heard(2, clocks.broker_ms() - 400)
    assert brokers.now_ms(3) == clocks.broker_ms() - 400


def test_a_brokers_clock_that_is_set_back_is_followed_within_two_windows() -> None:
    clocks = Clocks(behind_ms=0)
    brokers = BrokerClock(clocks)
    brokers.heard(1, clocks.broker_ms())
    clocks.behind_ms = 5000
    for _ in range(3):
        clocks.now_s += WINDOW_S
        brokers.heard(1, clocks.broker_ms())
    assert brokers.now_ms(1) == clocks.broker_ms()
