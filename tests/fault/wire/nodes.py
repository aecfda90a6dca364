"""Three nodes, of which the one that matters is killed at the moment that matters: while a request of a commit is on
its way."""

from collections import Counter
from contextlib import ExitStack
from threading import Event, Thread

from confluent_kafka.admin import NewTopic

from kafkawire.client.metadata import GROUP, TRANSACTION
from kafkawire.protocol.apis import ApiKey
from tests.brokers.kafka import Kafka
from tests.brokers.scripted import Waits
from tests.integration.kafka.behind import Behind, Once
from tests.integration.kafka.conftest import Place, soon

NODES = 3
LONG_S = 120.0
MOMENTS = (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
VICTIMS = ("leader", "coordinator of transactions", "coordinator of the group")


class Replicated(Place):
    kafka: Kafka

    def make_topic(self, partitions: int = 1, **_: str) -> None:
        topic = NewTopic(self.topic, partitions, NODES, config={"min.insync.replicas": "2"})
        self.admin.create_topics([topic])[self.topic].result()

    def in_sync(self) -> bool:
        """Whether every replica of every topic is there."""
        topics = self.admin.list_topics(timeout=10).topics.values()
        return all(len(one.isrs) == NODES for topic in topics for one in topic.partitions.values())


def victim_of(behind: Behind, name: str) -> int:
    nodes = behind.queue.nodes[-1]  # the worker's: what is beside it was there first
    if name == "leader":
        return nodes.leader(behind.place.topic, 0)
    group = behind.queue.settings.group
    return nodes.coordinator(*((GROUP, group) if name.endswith("group") else (TRANSACTION, behind.writer)))


def killed_while(behind: Behind, place: Replicated, name: str, moment: ApiKey) -> None:
    """The victim goes while the request waits; what was sent before that and after comes out once."""
    soon(place.in_sync, LONG_S)
    node = place.kafka.nodes[victim_of(behind, name) - 1]
    gone = Event()
    script = Once(behind, moment, 1, Waits(gone))
    with behind.scripted.following(script):
        behind.send()
        settling = Thread(target=settle, args=(behind,), daemon=True)
        settling.start()
        soon(lambda: script.fired)
        node.kill()
        gone.set()
        settling.join(LONG_S)
    settle(behind)
    node.start()
    place.kafka.wait_ready()
    behind.check()


def settle(behind: Behind) -> None:
    """Raises AssertionError with what stands in the way."""
    try:
        soon(behind.turn, LONG_S)
    except AssertionError as error:
        seen = f"owned: {behind.owned}, waiting: {len(behind.waiting)}, up to {behind.end}, {behind.cursor}"
        raise AssertionError(f"{seen}, met: {dict(behind.met)}") from error


def nodes_go(kafka: Kafka) -> Counter[str]:
    """Every victim at every moment. Raises AssertionError where a promise was broken."""
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        place = Replicated(kafka, stack)
        behind = Behind(place, stack, transaction_timeout_s=5.0, request_timeout_s=3.0)
        for name in VICTIMS:
            for moment in MOMENTS:
                killed_while(behind, place, name, moment)
                done[f"{name} killed at {moment.name}"] += 1
        met = Counter({f"the worker met {what}": count for what, count in behind.met.items()})
        return done + met + Counter({"messages delivered once": len(behind.sent)})
