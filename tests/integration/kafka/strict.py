"""A broker that allows what its ACLs allow and nothing else, and what a role of Delayline does on it.

`Rights` grants user alice, who is Delayline there, what a role needs, or all of it but one.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from cli.kafka_acls import Need, needs
from cli.kafka_rights import ROLES, Right, asked
from delayline.config import Settings
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.protocol.messages import produce
from kafkawire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from mq.contract import Append, Assigned, Delivery
from mq.kafka.admin.access import KINDS
from mq.kafka.admin.acl import IMPLIED, LITERAL, Acl
from mq.kafka.data_path.recovery import Hanging
from mq.kafka.planned.buffer_ranges import read_buffer
from tests.conftest import started
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, body, soon
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import batch_of, plain

if TYPE_CHECKING:
    from mq.kafka.queue import KafkaQueue
    from tests.brokers.kafka import Kafka

DELAYLINE, CLIENT = "User:alice", "User:bob"
REFUSED_S = 4.0
"""Long enough for an answer, and not longer than a test would wait for one that never comes."""

USERS = ("alice", "bob", *ROLES)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PASSWORDS = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
STRICT = {
    "allow.everyone.if.no.acl.found": "false",
    "transaction.partition.verification.enable": "false",  # else no transaction hangs on one node
    "listener.name.sasl.plain.sasl.jaas.config": f"{_PLAIN} {_PASSWORDS};",
}

ANY: Any = None
RESOURCES = {name: kind for kind, name in KINDS.items()}


@contextmanager
def strict_broker() -> "Iterator[Kafka]":
    from tests.brokers.kafka import Kafka

    with started(lambda: Kafka(properties=STRICT)) as broker:
        yield broker


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


class Strict(Place):
    """A place on the broker; the test itself is a super user, and its queue may do everything."""

    def __init__(self, kafka: "Kafka", stack: ExitStack) -> None:
        super().__init__(kafka, stack)
        self.make_topic(message_timestamp_type="LogAppendTime")
        self.stack = stack
        self.root = self.queue()
        self.client_id = f"app-{self.namespace}"
        self.wire = stack.enter_context(closing(WireClient(kafka.bootstrap_servers)))
        stack.callback(self.revoke)

    @property
    def settings(self) -> Settings:
        mq = {"kind": "kafka", "bootstrap_servers": self.kafka.sasl_servers, "properties": login("alice")}
        return Settings.model_validate({"namespace": self.namespace, "mq": mq, "delay": {"topics": [self.topic]}})

    def needs(self, *roles: str) -> list[Need]:
        return needs(self.settings, roles, None, [f"{self.client_id}*"])

    def as_delayline(self) -> "KafkaQueue":
        return self.queue(
            bootstrap_servers=self.kafka.sasl_servers, properties=login("alice"), request_timeout_s=REFUSED_S
        )

    def make_buffer(self) -> None:
        """With one record in its first partition, by the super user."""
        self.root.ensure_buffer(self.topic, DEFAULT_RULES)
        self.root.append([Append(self.buffer, "0", body(b"1"))]).result(PATIENCE_S)

    # --- ACLs

    def grant(self, acls: Iterable[Acl], principal: str = DELAYLINE) -> None:
        """Returns when the broker goes by them, which is later than it has stored them."""
        wanted = [_binding(acl, principal) for acl in acls]
        for future in self.admin.create_acls(wanted).values():
            future.result(PATIENCE_S)
        soon(lambda: set(wanted) <= set(self.bindings(principal)))

    def revoke(self) -> None:
        """Everything, of every principal."""
        for future in self.admin.delete_acls([_filter(ANY)]).values():
            future.result(PATIENCE_S)
        soon(lambda: not self.bindings())

    def bindings(self, principal: str = ANY) -> list[AclBinding]:
        """Those that the broker goes by."""
        return list(self.admin.describe_acls(_filter(principal)).result(PATIENCE_S))

    def grant_all_but(self, role: str, right: Right) -> None:
        """In the place of the right, what Kafka includes in it: that is not enough, either."""
        (without,) = (need.acl for need in self.needs(role) if need.why == (right.why,))
        assert without.operation == right.operation
        included = [small for small, larger in IMPLIED.items() if right.operation in larger]
        rest = [need.acl for need in self.needs(role) if need.acl != without]
        self.grant([*rest, *(without._replace(operation=small) for small in included)])

    # --- what hangs

    def leave_hanging(self, transactional_id: str) -> None:
        """In partition 1 of the buffer: a record of a transaction that was committed, and of whose end the partition
        has not heard."""
        self.make_buffer()
        for _ in range(2):  # the second one has a higher epoch, as where each transaction has its own (KIP-890)
            config = {"bootstrap.servers": self.kafka.bootstrap_servers, "transactional.id": transactional_id}
            producer = Producer(config)
            producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(self.topic, b"1", partition=0)
        producer.commit_transaction(PATIENCE_S)
        ended = soon(lambda: self._ended(transactional_id))
        ids = {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch - 1, "base_sequence": 0}
        parts = [produce.ProducePartition(1, batch_of([plain(1)], transactional=True, **ids))]
        request = produce.ProduceRequest(transactional_id, -1, 5000, [produce.ProduceTopic(self.buffer, parts)])
        answer = self.wire.ask(request, 11, produce.ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert self.hangs()

    def _ended(self, transactional_id: str) -> DescribedTransaction | None:
        found = self.described(transactional_id)
        return found if found.transaction_state == "CompleteCommit" else None

    def described(self, transactional_id: str) -> DescribedTransaction:
        request = DescribeTransactionsRequest([transactional_id])
        return self.wire.ask(request, 0, DescribeTransactionsResponse).transaction_states[0]

    def hangs(self, topic: str = "") -> bool:
        readable, written = (
            self.root.cluster.log_range(topic or self.buffer, 1, readable=level)[1] for level in (True, False)
        )
        return readable < written

    def hanging(self, queue: "KafkaQueue") -> Hanging:
        nodes = queue.direct("test").nodes
        return self.stack.enter_context(closing(Hanging(nodes, queue.names, REFUSED_S, CLOCK, Event().wait)))


def _binding(acl: Acl, principal: str) -> AclBinding:
    pattern = ResourcePatternType.LITERAL if acl.pattern.how == LITERAL else ResourcePatternType.PREFIXED
    operation = AclOperation[asked(acl.operation)]
    kind = RESOURCES[acl.pattern.kind]
    return AclBinding(kind, acl.pattern.name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


def _filter(principal: str) -> AclBindingFilter:
    kinds, patterns = ResourceType.ANY, ResourcePatternType.ANY
    return AclBindingFilter(kinds, ANY, patterns, principal, ANY, AclOperation.ANY, AclPermissionType.ANY)


# --- what roles do, each raises where it is refused

Doing = Callable[[Strict, "KafkaQueue"], object]


def make_buffer(place: Strict, queue: "KafkaQueue") -> None:
    """The first delayed record of a topic."""
    queue.ensure_buffer(place.topic, DEFAULT_RULES)


def repair_settings(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, place.buffer, incremental_configs=[entry])
    place.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    soon(lambda: place.root.cluster.config(place.buffer)["retention.ms"] == "1000")
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    soon(lambda: place.root.cluster.config(place.buffer)["retention.ms"] == "-1")


def add_partitions(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    place.admin.create_partitions([NewPartitions(place.topic, 3)])[place.topic].result(PATIENCE_S)
    soon(lambda: len(place.root.describe(place.topic).info.partitions) == 3)
    assert len(queue.ensure_buffer(place.topic, DEFAULT_RULES).partitions) == 3


def trim(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    queue.trim(place.shard, 1)


def read_as_worker(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    assert [len(chunk) for chunk in read_buffer(queue.settings, CLOCK, place.buffer, 0, 0, 1)] == [1]


def deliver(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    worker = place.worker(queue)
    worker.assigned(2)
    worker.claim(place.shard)
    worker.commit(place.shard, deliveries=[Delivery(body(b"1"))])


def join(place: Strict, queue: "KafkaQueue") -> None:
    """What refuses a member shows in the log alone: it tries again until it may."""
    from structlog.testing import capture_logs

    place.make_buffer()
    with capture_logs() as lines:
        worker = place.worker(queue)

        def outcome() -> bool:
            events = worker.poll()
            assert not [line for line in lines if "uthoriz" in str(line.get("detail"))], lines
            return any(isinstance(event, Assigned) for event in events)

        soon(outcome)


def read_how_far_audited(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    queue.audited(place.shard)


def look_at_open_transactions(place: Strict, queue: "KafkaQueue") -> None:
    """One that is under way in the target: what it holds up is looked at."""
    place.make_buffer()
    producer = Producer({"bootstrap.servers": place.kafka.bootstrap_servers, "transactional.id": place.client_id})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(place.topic, b"1", partition=1)
    producer.flush(PATIENCE_S)
    try:
        assert place.hangs(place.topic)
        place.hanging(queue).sweep()
    finally:
        producer.abort_transaction(PATIENCE_S)


def _finish(place: Strict, queue: "KafkaQueue", transactional_id: str) -> None:
    place.leave_hanging(transactional_id)
    hanging = place.hanging(queue)
    for _ in range(2):  # what is seen once may be under way
        hanging.sweep()
    soon(lambda: not place.hangs(), REFUSED_S)


def finish_own(place: Strict, queue: "KafkaQueue") -> None:
    _finish(place, queue, queue.names.worker("gone"))


def finish_clients(place: Strict, queue: "KafkaQueue") -> None:
    _finish(place, queue, place.client_id)


def recover(place: Strict, queue: "KafkaQueue") -> None:
    """As a producer does before it takes its id again."""
    transactional_id = queue.names.client("again")
    place.leave_hanging(transactional_id)
    place.hanging(queue).recover(transactional_id)
    soon(lambda: not place.hangs(), REFUSED_S)


def append_delayed(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    queue.append([Append(place.buffer, "0", body(b"1"))]).result(PATIENCE_S)


def append_at_once(place: Strict, queue: "KafkaQueue") -> None:
    queue.append([Append(place.topic, "0", body(b"1"))]).result(PATIENCE_S)


def append_several(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    queue.append([Append(place.buffer, str(n), body(b"1")) for n in range(2)]).result(PATIENCE_S)


def read_pending(place: Strict, queue: "KafkaQueue") -> None:
    place.make_buffer()
    assert queue.read(place.buffer, "0", 0, 10)


def read_delivered(place: Strict, queue: "KafkaQueue") -> None:
    place.root.append([Append(place.topic, "0", body(b"1"))]).result(PATIENCE_S)
    assert queue.read(place.topic, "0", 0, 10)


def find_owners(place: Strict, queue: "KafkaQueue") -> None:
    queue.owners()
