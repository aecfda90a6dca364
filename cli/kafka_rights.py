"""What the principal of `mq.properties` needs on brokers with an authorizer, by process. docs/deploy.md shows it,
`delayline kafka acls` makes ACLs of it, and `delayline doctor` looks for it; the names of operations are those of
kafka-acls.sh.

Where Kafka's authorizer includes a right in another one of the same process, it is no row of its own: Read, Write,
Delete and Alter include Describe, AlterConfigs includes DescribeConfigs."""

from typing import NamedTuple

ROLES = ("worker", "api", "proxy", "reconcile")
SERVE = ("worker", "api", "proxy")
"""The roles of `serve`, in one process."""

OWN = "topics `<namespace>.*`"
TARGETS = "delay-enabled topics"
WORKER_GROUP = "group `<namespace>-worker`"
RECONCILE_GROUP = "group `<namespace>-reconcile`"
OUR_IDS = "transactional ids `<namespace>-*`"
CLIENTS_IDS = "transactional ids of clients"
CLUSTER = "cluster"


class Right(NamedTuple):
    """`roles` may do `operation` with `resource`, `why`."""

    resource: str
    operation: str
    roles: tuple[str, ...]
    why: str


RIGHTS = (
    Right(OWN, "Read", ROLES, "what waits, cursors, audit, dead letters, acts; states of producers"),
    Right(OWN, "Write", SERVE, "what waits, cursors, audit, dead letters, acts"),
    Right(OWN, "Create", SERVE, "topics that are missing, unless `mq.topics_create` is off"),
    Right(OWN, "AlterConfigs", SERVE, "settings that were altered by hand are repaired within half a minute"),
    Right(OWN, "Alter", SERVE, "partitions are added to a buffer when its topic has grown"),
    Right(OWN, "Delete", ("worker",), "what has been delivered and audited is trimmed (DeleteRecords)"),
    Right(TARGETS, "DescribeConfigs", ROLES, "how large a record may be, how many replicas must be in sync"),
    Right(TARGETS, "Write", ("worker", "api"), "deliveries, and messages over HTTP that are not delayed"),
    Right(TARGETS, "Read", ROLES, "transactions that hang, `tail`, states of producers, what was delivered"),
    Right(WORKER_GROUP, "Describe", ("api", "proxy", "reconcile"), "who owns which shard, and how far it is"),
    Right(WORKER_GROUP, "Read", ("worker",), "to be a member, and to commit offsets"),
    Right(RECONCILE_GROUP, "Describe", ("worker",), "how far the buffers have been audited"),
    Right(RECONCILE_GROUP, "Read", ("reconcile",), "to commit how far the buffers have been audited"),
    Right(OUR_IDS, "Write", ("worker", "api"), "deliveries, and several messages in one request"),
    Right(CLIENTS_IDS, "Describe", ("worker",), "how a client's transaction ended that hangs"),
    Right(CLIENTS_IDS, "Write", ("proxy",), "delayed records inside of clients' transactions"),
    Right(
        CLUSTER, "Alter", ("worker", "api"), "to finish transactions that hang; without it what they hold up waits"
    ),
)


def operations(resource: str) -> frozenset[str]:
    """What any process needs of the resource, by the names that brokers are asked by. Create is not among them: an
    existing topic does not show whether another may be made."""
    return frozenset(
        asked(right.operation) for right in RIGHTS if right.resource == resource and right.operation != "Create"
    )


def asked(operation: str) -> str:
    """DescribeConfigs -> DESCRIBE_CONFIGS."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).lstrip("_").upper()
