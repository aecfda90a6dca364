"""What can be wrong with a Kafka cluster, and with its topics."""

from collections.abc import Iterator, Mapping, Sequence

from cli.acl_check import Verdict, ask, judge
from cli.acl_output import described
from cli.findings import TOPICS_MAX, Finding, left_out, no_answer
from cli.kafka_acls import Need, default_principal, needs
from cli.kafka_rights import OWN, ROLES, TARGETS, operations
from delayline.config import Settings
from mq.clock_offset import ClockOffset
from mq.errors import QueueError, TopicUnknown
from mq.kafka.admin.buffers import Change
from mq.kafka.admin.cluster import Described
from mq.kafka.queue import KafkaQueue

TARGET_RIGHTS = operations(TARGETS)
OWN_RIGHTS = operations(OWN)

PLAN = "`delayline topics plan` shows it, with --apply it is done"


def examine_kafka(settings: Settings, queue: KafkaQueue, features: Mapping[str, int] | str) -> Iterator[Finding]:
    """`features` are those that the cluster has agreed on, or why they are not known."""
    servers = settings.mq.bootstrap_servers
    try:
        topics = queue.topics()
    except QueueError as error:
        yield no_answer("Kafka", servers, "broker", error)
        return
    yield Finding("ok", "queue", f"Kafka at {servers}, {len(topics)} topics of users")
    yield transactions(features)
    yield from _cluster(queue)
    yield _protocol(queue)
    enabled = [topic for topic in topics if settings.is_delay_enabled(topic)]
    yield from named(settings.delay.topics, topics, enabled)
    for topic in enabled[:TOPICS_MAX]:
        yield from _target(queue, topic)
    yield from _own(settings, queue, enabled[:TOPICS_MAX])
    yield from left_out(enabled)
    yield from _unseen_rights(settings, queue)
    yield _clock(settings, queue)


def transactions(features: Mapping[str, int] | str) -> Finding:
    """Whether the brokers fence each transaction on its own (KIP-890)."""
    if isinstance(features, str):
        return Finding("warn", "brokers", f"their features are not known: {features}")
    level = features.get("transaction.version", 0)
    if level >= 2:
        return Finding("ok", "brokers", f"transaction.version {level}")
    advice = (
        "from Kafka 4.0 on: kafka-features.sh upgrade --feature transaction.version=2; "
        "till then a record held up in the network may be delivered twice"
    )
    return Finding("warn", "brokers", f"transaction.version {level}", advice)


def _cluster(queue: KafkaQueue) -> Iterator[Finding]:
    try:
        yield from markers(queue.operations())
    except QueueError as error:
        yield Finding("warn", "cluster", f"our rights are not known: {error}")


def markers(operations: frozenset[str] | None) -> Iterator[Finding]:
    """Whether we may finish transactions that hang; nothing where the brokers do not report it."""
    if operations is not None and "ALTER" not in operations:
        advice = "allow Alter on the cluster: see docs/guarantees.md for what hangs, and what waits for it then"
        yield Finding("warn", "cluster", "not allowed: ALTER, to finish transactions that hang", advice)


def _protocol(queue: KafkaQueue) -> Finding:
    try:
        queue.check_brokers()
    except QueueError as error:
        return Finding(
            "fail", "protocol", str(error), "see docs/data-path.md for what a worker needs from every broker"
        )
    return Finding("ok", "protocol", "the brokers speak what a worker needs")


def named(patterns: Sequence[str], topics: Sequence[str], enabled: Sequence[str]) -> Iterator[Finding]:
    """Whether delay.topics names what there is."""
    if not patterns:
        yield Finding(
            "warn", "delay.topics", "no topic takes delays", "name some: DELAYLINE_DELAY__TOPICS='orders,mail-*'"
        )
    for name in patterns:
        if not set("*?") & set(name) and name not in topics:
            advice = "make it, or correct the name: Delayline makes no topics of yours"
            yield Finding("fail", "delay.topics", f"the cluster has no topic {name}", advice)
    if patterns and not enabled:
        yield Finding("warn", "delay.topics", "no topic of the cluster matches", "is it spelt as the topics are?")
    elif enabled:
        yield Finding("ok", "delay.topics", f"{len(enabled)} topics take delays")


# --- topics


def _target(queue: KafkaQueue, topic: str) -> Iterator[Finding]:
    try:
        yield from target(topic, queue.describe(topic))
    except QueueError as error:
        yield Finding("fail", topic, str(error))


def target(topic: str, found: Described) -> Iterator[Finding]:
    """Whether deliveries to the topic will be taken."""
    yield from rights(topic, found, TARGET_RIGHTS)
    if -1 in found.leaders:
        yield Finding("fail", topic, f"partition {found.leaders.index(-1)} has no leader", "is a broker down?")
    if found.replicas == 1:
        advice = "what waits for it has one replica, too: as durable as that disk"
        yield Finding("warn", topic, "it has one replica", advice)


def rights(topic: str, found: Described, needed: frozenset[str]) -> Iterator[Finding]:
    """Whether we may do with the topic what has to be done; nothing where the brokers do not report it."""
    if found.operations is not None and (missing := sorted(needed - found.operations)):
        advice = "let the principal of mq.properties do that: `delayline kafka acls` shows all that it needs"
        yield Finding("fail", topic, f"not allowed: {', '.join(missing)}", advice)


def _own(settings: Settings, queue: KafkaQueue, enabled: Sequence[str]) -> Iterator[Finding]:
    try:
        changes = queue.plan(enabled)
    except QueueError as error:
        yield Finding("fail", "own topics", str(error))
        return
    for change in changes:
        yield own(change, topics_create=settings.mq.topics_create)
        if change.partitions_before:
            yield from _own_rights(queue, change.topic)


def _own_rights(queue: KafkaQueue, topic: str) -> Iterator[Finding]:
    try:
        yield from rights(topic, queue.describe(topic), OWN_RIGHTS)
    except TopicUnknown:
        return  # deleted this moment; whoever makes it anew is asked the next time


def own(change: Change, *, topics_create: bool) -> Finding:
    """Whether one of Delayline's own topics is as it must be."""
    if change.partitions_before == 0:
        if topics_create:
            return Finding("ok", change.topic, "made at the first delayed message")
        return Finding("fail", change.topic, "it is missing, and mq.topics_create is off", PLAN)
    if change.partitions_before < change.partitions:
        detail = f"{change.partitions_before} partitions, {change.partitions} are needed"
        return Finding("warn", change.topic, detail, f"a worker adds them within half a minute; {PLAN}")
    if change.settings:
        drift = ", ".join(f"{key} is {old}, not {new}" for key, (old, new) in sorted(change.settings.items()))
        return Finding("warn", change.topic, drift, f"a worker repairs it within half a minute; {PLAN}")
    return Finding("ok", change.topic, f"{change.partitions} partitions")


# --- rights with what is no topic


def _unseen_rights(settings: Settings, queue: KafkaQueue) -> Iterator[Finding]:
    """No setting names the transactional ids of clients: `delayline kafka acls --check` is passed them."""
    principal = default_principal(settings)
    wanted = [need for need in needs(settings, ROLES, (), ()) if is_unseen(need)]
    try:
        reported = ask(settings, queue, (), is_own=True)
    except QueueError as error:
        yield Finding("warn", "rights", f"groups and transactional ids were not looked at: {error}")
        return
    yield from unseen_rights(judge(settings, wanted, reported, principal))


def is_unseen(need: Need) -> bool:
    """Whether topics and the cluster, which are asked one by one, do not show it."""
    return need.acl.pattern.kind in ("group", "transactional-id") or need.acl.operation == "Create"


def unseen_rights(verdict: Verdict) -> Iterator[Finding]:
    """Of groups and transactional ids, and whether topics may be made. Processes may have principals of their own, so
    that what another one needs is no failure here."""
    for need in verdict.missing:
        detail = f"not allowed: {described(need.acl)} (for {', '.join(need.roles)}): {'; '.join(need.why)}"
        yield Finding("warn", "rights", detail, "`delayline kafka acls --format commands` shows what to allow")
    if verdict.unknown:
        names = ", ".join(described(need.acl) for need in verdict.unknown)
        yield Finding("ok", "rights", f"the brokers do not show whether we are allowed: {names}")


# --- clock


def _clock(settings: Settings, queue: KafkaQueue) -> Finding:
    try:
        return clock(queue.measure_clock(), settings.dispatch.clock_skew_max)
    except QueueError as error:
        return Finding("warn", "clock", f"not measured: {error}")


def clock(offset: ClockOffset | None, skew_max_ms: int) -> Finding:
    """Whether this machine's clock is that of the brokers."""
    if offset is None:
        return Finding("ok", "clock", "not measured before there are topics of Delayline's own")
    detail = f"{offset.middle_ms:+.0f} ms against broker {offset.broker}, dispatch.clock_skew_max is {skew_max_ms} ms"
    if offset.beyond(skew_max_ms):
        return Finding("fail", "clock", detail, "set the clocks by NTP: shards stall like this")
    if offset.beyond(skew_max_ms // 5):
        return Finding("warn", "clock", detail, "set the clocks by NTP: what is due comes late by as much")
    return Finding("ok", "clock", detail)
