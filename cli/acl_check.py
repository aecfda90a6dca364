"""Whether brokers allow what the table of rights asks for: by their access control lists where we may list them
(Describe on the cluster), and by what they report of topics, groups and the cluster to the principal that asks.

Neither shows everything. Lists name no super users, and not what brokers allow where no rule names a resource
(`allow.everyone.if.no.acl.found`); transactional ids, and topics that are still to be made, are reported to no one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cli.findings import TOPICS_MAX
from cli.kafka_acls import Need, own_patterns
from cli.kafka_rights import asked
from delayline.config import Settings
from delayline.names import Names
from mq.kafka.admin.acl import PREFIXED, Acl, Binding, Pattern, grants, is_granted
from mq.kafka.queue import KafkaQueue

Place = tuple[str, str]
"""A resource: its kind and its name."""

CLUSTER: Place = ("cluster", "kafka-cluster")


class Reported(NamedTuple):
    """`bindings` is None where we may not list them. `operations` is what the principal that asks may do (READ,
    ALTER_CONFIGS, ...), of the resources that there are; empty where another one's rights are looked at."""

    bindings: Sequence[Binding] | None
    operations: Mapping[Place, frozenset[str]]


class Verdict(NamedTuple):
    """Needs that are not allowed, those of which nothing shows whether they are, and what is allowed with Delayline's
    own resources beyond the needs."""

    missing: Sequence[Need]
    unknown: Sequence[Need]
    superfluous: Sequence[Acl]


def ask(settings: Settings, queue: KafkaQueue, topics: Sequence[str], *, is_own: bool) -> Reported:
    """`topics` take delays. `is_own`: it is our own principal that is looked at. Raises QueueError."""
    access = queue.access()
    bindings = access.bindings()
    if not is_own:
        return Reported(bindings, {})
    names = Names(settings.namespace)
    mine = [names.audit, names.dead, names.operators, names.cursor]
    looked_at = [*mine, *(name for topic in topics[:TOPICS_MAX] for name in (topic, names.buffer(topic)))]
    groups = [queue.settings.group, queue.settings.reconcile_group]
    found = {
        CLUSTER: queue.operations(),
        **{("topic", name): access.topic_operations(name) for name in looked_at},
        **{("group", name): access.group_operations(name) for name in groups},
    }
    return Reported(bindings, {place: allowed for place, allowed in found.items() if allowed is not None})


def judge(settings: Settings, needs: Sequence[Need], reported: Reported, principal: str | None) -> Verdict:
    """`principal` None: it is not known who we are to the brokers, and no list is looked at."""
    missing: list[Need] = []
    unknown: list[Need] = []
    for need in needs:
        allowed = _is_allowed(need.acl, reported, principal)
        if allowed is not True:
            (unknown if allowed is None else missing).append(need)
    return Verdict(missing, unknown, _superfluous(settings, needs, reported.bindings, principal))


def _is_allowed(acl: Acl, reported: Reported, principal: str | None) -> bool | None:
    """None where nothing shows it."""
    by_list = None
    if reported.bindings is not None and principal is not None:
        if is_granted(acl, reported.bindings, principal):
            return True
        by_list = False if _lists_decide(reported, principal) else None
    by_report = _is_reported(acl, reported.operations)
    return by_list if by_report is None else by_report


def _lists_decide(reported: Reported, principal: str) -> bool:
    """False for one that no ACL names and that may alter the cluster all the same: a super user, or one that brokers
    let do what no rule is about."""
    named = any(binding.principal == principal for binding in reported.bindings or ())
    return named or not reported.operations.get(CLUSTER)


def _is_reported(acl: Acl, operations: Mapping[Place, frozenset[str]]) -> bool | None:
    """Of a beginning of names, as far as there are such resources: what may be done with those need not be allowed
    with others, but mostly is."""
    if acl.operation == "Create":
        return None
    found = [allowed for place, allowed in operations.items() if _is_in(place, acl.pattern)]
    return all(asked(acl.operation) in allowed for allowed in found) if found else None


def _is_in(place: Place, pattern: Pattern) -> bool:
    kind, name = place
    return pattern.kind == kind and (
        name.startswith(pattern.name) if pattern.how == PREFIXED else name == pattern.name
    )


def _superfluous(
    settings: Settings, needs: Sequence[Need], bindings: Iterable[Binding] | None, principal: str | None
) -> list[Acl]:
    """Of the principal's ACLs, those about our own resources alone of which no need is a part."""
    own = own_patterns(settings)
    given = dict.fromkeys(one.acl for one in bindings or () if one.principal == principal and one.allows)
    return [
        acl
        for acl in given
        if any(pattern.covers(acl.pattern) for pattern in own) and not any(_serves(acl, need.acl) for need in needs)
    ]


def _serves(given: Acl, need: Acl) -> bool:
    """Whether it is the need, or a part of it: Describe beside Read changes nothing."""
    return given.pattern.overlaps(need.pattern) and (
        grants(given, need) or grants(need, given) or grants(given, need._replace(pattern=given.pattern))
    )
