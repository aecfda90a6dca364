"""What the principal of `mq.properties` needs on brokers with an authorizer, by process. docs/deploy.md shows it, and
`delayline doctor` looks for it; the names of operations are those of kafka-acls.sh."""

from typing import NamedTuple

ROLES = ("worker", "api", "proxy", "reconcile")
"""`serve` is the first three in one process."""

OWN = "topics `<namespace>.*`"
TARGETS = "delay-enabled topics"
WORKER_GROUP = "group `<namespace>-worker`"
RECONCILE_GROUP = "group `<namespace>-reconcile`"
OUR_IDS = "transactional ids `<namespace>*`"
CLIENTS_IDS = "transactional ids of clients"
CLUSTER = "cluster"


class Right(NamedTuple):
    """`roles` may do `operation` with `resource`, `why`."""

    resource: str
    operation: str
    roles: tuple[str, ...]
    why: str


_SENDING = ("worker", "api", "proxy")

RIGHTS = (
    Right(OWN, "Describe", ROLES, "partitions, leaders, ends of logs"),
    Right(OWN, "Read", ROLES, "what waits, cursors, audit, dead letters; states of producers"),
    Right(OWN, "Write", _SENDING, "what waits, cursors, audit, dead letters"),
    Right(OWN, "Create", _SENDING, "topics that are missing, unless `mq.topics_create` is off"),
    Right(OWN, "DescribeConfigs", _SENDING, "whether a topic is as it must be"),
    Right(OWN, "AlterConfigs", _SENDING, "settings that were altered by hand are repaired within half a minute"),
    Right(OWN, "Alter", _SENDING, "partitions are added to a buffer when its topic has grown"),
    Right(OWN, "Delete", ("worker",), "what has been delivered and audited is trimmed (DeleteRecords)"),
    Right(TARGETS, "Describe", ROLES, "partitions and leaders"),
    Right(TARGETS, "DescribeConfigs", ROLES, "how large a record may be, how many replicas must be in sync"),
    Right(TARGETS, "Write", ("worker", "api"), "deliveries, and messages over HTTP that are not delayed"),
    Right(TARGETS, "Read", ROLES, "transactions that hang, `tail`, states of producers, what was delivered"),
    Right(WORKER_GROUP, "Describe", ROLES, "who owns which shard, and how far it is"),
    Right(WORKER_GROUP, "Read", ("worker",), "to be a member, and to commit offsets"),
    Right(RECONCILE_GROUP, "Describe", ("worker", "api", "reconcile"), "how far the buffers have been audited"),
    Right(RECONCILE_GROUP, "Read", ("reconcile",), "to commit that"),
    Right(OUR_IDS, "Describe", ("worker", "api"), "the result of a transaction"),
    Right(OUR_IDS, "Write", ("worker", "api"), "deliveries, and several messages in one request"),
    Right(CLIENTS_IDS, "Write", ("proxy",), "delayed records inside of clients' transactions"),
    Right(CLUSTER, "IdempotentWrite", _SENDING, "brokers before 2.8; later ones are content with Write on a topic"),
    Right(
        CLUSTER, "Alter", ("worker", "api"), "to finish transactions that hang; without it what they hold up waits"
    ),
)


def operations(resource: str) -> frozenset[str]:
    """What any process needs of the resource, by the names that brokers are asked by. Create is not among them: an
    existing topic does not show whether another may be made."""
    return frozenset(
        _asked(right.operation) for right in RIGHTS if right.resource == resource and right.operation != "Create"
    )


def _asked(operation: str) -> str:
    """DescribeConfigs -> DESCRIBE_CONFIGS."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).lstrip("_").upper()
