"""A partition that has no leader when a transaction ends gets no marker, and Kafka forgets that it should have had
one: what was committed there stays hidden. Whoever goes on in the writer's place has it finished as its coordinator
has decided, and so does the writer itself; where nobody goes on, a sweep does."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.client.steps import End, Request
from mq.contract import Delivery
from mq.kafka.admin.cluster import Cluster
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.recovery import Hanging
from mq.kafka.data_path.sends import Send
from mq.kafka.data_path.spoken import direct
from mq.kafka.settings import KafkaSettings
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, Worker, body, soon

if TYPE_CHECKING:
    from mq.kafka.queue import KafkaQueue


pytestmark = pytest.mark.thorough

HOME = 3
"""The node that alone holds every target."""


class Target(Place):
    """An installation whose target has a single replica."""

    def __init__(self, kafka: Kafka, stack: ExitStack) -> None:
        super().__init__(kafka, stack)
        self.nodes = direct(self.queue().settings, "test", CLOCK).nodes
        self.hanging = stack.enter_context(closing(Hanging(self.nodes, self.queue().names, 20, CLOCK, Event().wait)))
        topics = [NewTopic(self.topic, 2, replica_assignment=[[HOME], [HOME]]), NewTopic(self.buffer, 1, 3)]
        for made in self.admin.create_topics(topics).values():
            made.result()
        soon(lambda: self.leader() == HOME)

    def queue(self, **settings: Any) -> "KafkaQueue":
        """Transactions wait at the gate for the slowest writer, and for the cluster to miss a node."""
        return super().queue(**{"transaction_timeout_s": 120.0, **settings})

    def leader(self) -> int:
        return self.nodes.all_leaders().get((self.topic, 0), 0)

    def hangs(self) -> bool:
        settings = KafkaSettings(bootstrap_servers=self.kafka.bootstrap_servers, namespace=self.namespace)
        cluster = Cluster(settings, CLOCK, Event().wait)
        readable, written = (cluster.log_range(self.topic, 0, readable=level)[1] for level in (True, False))
        return readable < written


class Gate:
    """Writers wait here, everything written, until their target has lost its leader."""

    def __init__(self) -> None:
        self.waiting = [Event() for _ in range(3)]
        self.opened = Event()

    def pass_through(self, number: int) -> None:
        self.waiting[number].set()
        assert self.opened.wait(100)

    def before_the_end(self, number: int, transactions: WireTransactions) -> None:
        ask = transactions._ask

        def asking(request: Request) -> Any:
            if isinstance(request, End):
                self.pass_through(number)
            return ask(request)

        transactions._ask = asking


class Fallen(NamedTuple):
    """What was committed, or aborted, while the only node with the target was away. It is back."""

    dead: Target
    living: Target
    writer: WireTransactions
    aborted: Target


@pytest.fixture(scope="module")
def fallen() -> Iterator[Fallen]:
    with started(lambda: Kafka(3)) as kafka, ExitStack() as stack, ThreadPoolExecutor(3) as threads:
        dead, living, aborted = (Target(kafka, stack) for _ in range(3))
        gate = Gate()
        writer = _living(living)
        gate.before_the_end(1, writer)
        done = [
            threads.submit(_commit_and_die, dead, gate, 0),
            threads.submit(writer.run, [Send(living.topic, 0, body(b"committed"))]),
            threads.submit(_abort, aborted, gate, 2),
        ]
        for waiting in gate.waiting:
            assert waiting.wait(60)
        kafka.nodes[HOME - 1].kill()
        soon(lambda: dead.leader() == -1)
        gate.opened.set()
        for one in done:
            one.result(60)
        kafka.nodes[HOME - 1].start()
        kafka.wait_ready()
        for target in (dead, living, aborted):
            soon(lambda target=target: target.leader() == HOME)
        with closing(writer):
            yield Fallen(dead, living, writer, aborted)


def _commit_and_die(target: Target, gate: Gate, number: int) -> None:
    queue = target.queue()
    queue.ensure_buffer(target.topic, DEFAULT_RULES)
    worker = Worker(queue, queue.names.worker("dead"))
    worker.assigned(2)
    worker.claim(target.shard)
    gate.before_the_end(number, worker.sink.transactions)
    worker.commit(target.shard, deliveries=[Delivery(body(b"committed"))])
    worker.close()
    queue.close()


def _living(target: Target) -> WireTransactions:
    queue = target.queue()
    return queue.transactions(queue.direct("living"), queue.names.worker("living"))


def _abort(target: Target, gate: Gate, number: int) -> None:
    """As who appends for clients does, and dies."""
    names = target.queue().names
    producer = Producer(target.queue().settings.transactional(names.client("dead")))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(target.topic, b"aborted", partition=0)
    producer.flush(PATIENCE_S)
    gate.pass_through(number)
    producer.abort_transaction(30)


def test_an_heir_finishes_what_the_dead_worker_has_committed(fallen: Fallen) -> None:
    target = fallen.dead
    assert target.hangs()
    heir = target.queue()
    handover = heir.takeover(target.shard)
    assert not target.hangs()
    assert handover.cursor is not None
    assert handover.cursor.writer == heir.names.worker("dead")
    assert [record.body for record in heir.read(target.topic, "0", 0, 9)] == [body(b"committed")]


def test_a_living_writer_finishes_it_before_it_writes_anything_else(fallen: Fallen) -> None:
    target = fallen.living
    assert target.hangs()
    fallen.writer.run([Send(target.buffer, 0, body(b"elsewhere"))])
    assert not target.hangs()
    assert [record.body for record in target.queue().read(target.topic, "0", 0, 9)] == [body(b"committed")]


def test_a_sweep_finishes_what_nobody_goes_on_with_and_what_was_aborted_stays_so(fallen: Fallen) -> None:
    target = fallen.aborted
    assert target.hangs()
    target.hanging.sweep()
    assert target.hangs(), "what is seen for the first time may be under way"
    target.hanging.sweep()
    assert not target.hangs()
    assert target.queue().read(target.topic, "0", 0, 9) == []
