"""The ACLs that processes need with these settings: the table of rights, with names in it.

Nothing here asks a broker. Topics that take delays are given by patterns, and Kafka knows only names and beginnings
of names: what is neither needs the names of the topics that there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cli import kafka_rights as table
from delayline.config import Settings
from delayline.errors import ConfigError
from kafkawire.security.access import PASSWORDS, mechanism_of
from mq.kafka.admin.acl import ANY_NAME, LITERAL, PREFIXED, Acl, Pattern

WILDCARDS = frozenset("*?")
INTERNAL = "__"
"""What the names of Kafka's own topics begin with: no rule of ours may cover them."""


class Need(NamedTuple):
    """An ACL, the roles that need it, and what for."""

    acl: Acl
    roles: tuple[str, ...]
    why: tuple[str, ...]


def default_principal(settings: Settings) -> str | None:
    """`User:NAME` where the principal of `mq.properties` is the name that it logs in with; a broker may map names
    (`principal.builder.class`)."""
    properties = settings.mq.client_properties()
    name = properties.get("sasl.username")
    return f"User:{name}" if name and mechanism_of(properties) in PASSWORDS else None


def check_principal(principal: str) -> str:
    """`TYPE:NAME`, as Kafka parses it (`SecurityUtils.parseKafkaPrincipal`). Raises ConfigError."""
    kind, _, name = principal.partition(":")
    if not kind or not name or principal != principal.strip() or not principal.isprintable():
        raise ConfigError(f"--principal: {principal!r} is not TYPE:NAME, such as User:delayline")
    return principal


def needs(
    settings: Settings, roles: Iterable[str], topics: Sequence[str] | None, client_ids: Sequence[str]
) -> list[Need]:
    """What these roles need, each on its own: what one needs may include what another one does. `topics` are those
    that there are, None where that is not known; `client_ids` are transactional ids of clients, `NAME` or
    `BEGINNING*`. Raises ConfigError."""
    wanted = frozenset(roles)
    places = _places(settings, topics, client_ids)
    found: dict[Acl, list[tuple[str, str]]] = {}
    for right in table.RIGHTS:
        if right.operation == "Create" and not settings.mq.topics_create:
            continue
        for role in (role for role in right.roles if role in wanted):
            for pattern in places[right.resource]:
                found.setdefault(Acl(pattern, right.operation), []).append((role, right.why))
    return [_need(acl, found) for acl in found]


def _need(acl: Acl, found: Mapping[Acl, Sequence[tuple[str, str]]]) -> Need:
    roles, why = zip(*found[acl], strict=True)
    return Need(acl, tuple(dict.fromkeys(roles)), tuple(dict.fromkeys(why)))


def _places(
    settings: Settings, topics: Sequence[str] | None, client_ids: Sequence[str]
) -> Mapping[str, Sequence[Pattern]]:
    """The resources of the table by their names there."""
    space = settings.namespace
    return {
        table.OWN: [Pattern("topic", PREFIXED, f"{space}.")],
        table.TARGETS: targets(settings, topics),
        table.WORKER_GROUP: [Pattern("group", LITERAL, f"{space}-worker")],
        table.RECONCILE_GROUP: [Pattern("group", LITERAL, f"{space}-reconcile")],
        table.OUR_IDS: [Pattern("transactional-id", PREFIXED, f"{space}-")],
        table.CLIENTS_IDS: [_of_clients(name) for name in client_ids],
        table.CLUSTER: [Pattern("cluster", LITERAL, "kafka-cluster")],
    }


def own_patterns(settings: Settings) -> list[Pattern]:
    """Everything that is this installation's, and no one else's."""
    mine = (table.OWN, table.WORKER_GROUP, table.RECONCILE_GROUP, table.OUR_IDS)
    places = _places(settings, (), ())
    return [pattern for resource in mine for pattern in places[resource]]


def targets(settings: Settings, topics: Sequence[str] | None) -> list[Pattern]:
    """The topics that take delays. Raises ConfigError for a pattern that is no beginning, where the topics are not
    known."""
    if topics is not None:
        return [Pattern("topic", LITERAL, topic) for topic in topics if settings.is_delay_enabled(topic)]
    return [_target(pattern) for pattern in settings.delay.topics if _may_match(settings, pattern)]


def _may_match(settings: Settings, pattern: str) -> bool:
    """False for a name that takes no delays whatever the pattern: our own, Kafka's, or one that is too long."""
    return bool(WILDCARDS & set(pattern)) or settings.is_delay_enabled(pattern)


def _target(pattern: str) -> Pattern:
    if not WILDCARDS & set(pattern):
        return Pattern("topic", LITERAL, pattern)
    start = pattern.rstrip("*")
    if WILDCARDS & set(start):
        _refuse(pattern, "has a wildcard before its end")
    if start.startswith(INTERNAL) or INTERNAL.startswith(start):
        _refuse(pattern, "would cover Kafka's own topics")
    return Pattern("topic", PREFIXED, start)


def _refuse(pattern: str, why: str) -> None:
    raise ConfigError(
        f"delay.topics: no ACL is like {pattern!r}, it {why}; "
        "--existing asks the brokers for the topics that match now, or name them in delay.topics"
    )


def _of_clients(name: str) -> Pattern:
    """Raises ConfigError."""
    start = name.removesuffix("*")
    if (not start and name != ANY_NAME) or "*" in start:
        raise ConfigError(f"--transactional-id: {name!r} is neither an id nor the beginning of some, as app-*")
    how = PREFIXED if start and start != name else LITERAL
    return Pattern("transactional-id", how, start or ANY_NAME)
