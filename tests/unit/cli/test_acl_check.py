"""Whether something is missing, as brokers' lists and reports show it."""

import pytest

from cli.acl_check import CLUSTER, Place, Reported, Verdict, judge
from cli.acl_output import described
from cli.kafka_acls import Need, needs
from cli.kafka_doctor import is_unseen, unseen_rights
from cli.kafka_rights import ROLES, asked
from delayline.config import Settings
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Binding, Pattern

BROKERS = {"kind": "kafka", "bootstrap_servers": "k1:9092"}
SETTINGS = Settings.model_validate({"namespace": "ns", "mq": BROKERS, "delay": {"topics": ["orders"]}})
US = "User:us"


def needed(*roles: str) -> list[Need]:
    return needs(SETTINGS, roles, None, ["app-*"])


def listed(acls: list[Acl], principal: str = US) -> list[Binding]:
    return [Binding(acl, principal, "*", allows=True) for acl in acls]


def names(found: list[Need]) -> list[str]:
    return [described(need.acl) for need in found]


def judged(
    role: str, bindings: list[Binding] | None, operations: dict[Place, frozenset[str]] | None = None
) -> Verdict:
    return judge(SETTINGS, needed(role), Reported(bindings, operations or {}), US)


@pytest.mark.parametrize("role", ROLES)
def test_by_lists_nothing_is_missing_with_all_of_it_and_each_one_without(role: str) -> None:
    acls = [need.acl for need in needed(role)]
    assert judged(role, listed(acls)) == Verdict([], [], [])
    for without in acls:
        verdict = judged(role, listed([acl for acl in acls if acl != without]))
        assert names(list(verdict.missing)) == [described(without)]
        assert (verdict.unknown, verdict.superfluous) == ([], [])


def test_lists_of_others_count_for_nothing() -> None:
    acls = [need.acl for need in needed("reconcile")]
    assert len(judged("reconcile", listed(acls, "User:them")).missing) == len(acls)


def everything(*places: Place) -> dict[Place, frozenset[str]]:
    return dict.fromkeys(places, frozenset({"READ", "WRITE", "ALTER", "ALTER_CONFIGS", "DELETE", "DESCRIBE_CONFIGS"}))


def test_without_lists_what_brokers_report_counts_and_the_rest_is_not_known() -> None:
    topics = [("topic", "orders"), ("topic", "ns.audit"), ("topic", "ns.buffer.orders")]
    groups = [("group", "ns-worker"), ("group", "ns-reconcile")]
    reported = {**everything(CLUSTER, *topics, *groups), groups[1]: frozenset({"DESCRIBE", "READ"})}
    verdict = judged("worker", None, reported)
    assert verdict.missing == []
    assert names(list(verdict.unknown)) == [
        "Create on topic ns.*",
        "Write on transactional-id ns-*",
        "Describe on transactional-id app-*",
    ]
    del reported[groups[0]]
    reported[topics[2]] = frozenset({"READ"})
    verdict = judged("worker", None, reported)
    assert names(list(verdict.missing))[0] == "Write on topic ns.*"
    assert "Read on group ns-worker" in names(list(verdict.unknown))


def test_a_super_user_whom_no_list_names_lacks_nothing_that_shows() -> None:
    verdict = judged("worker", [], everything(CLUSTER, ("topic", "orders"), ("topic", "ns.audit")))
    assert verdict.missing == []
    assert "Write on transactional-id ns-*" in names(list(verdict.unknown))


def test_one_that_may_not_even_alter_the_cluster_lacks_what_no_list_has() -> None:
    verdict = judged("reconcile", [], {CLUSTER: frozenset()})
    assert len(verdict.missing) == len(needed("reconcile"))


def test_only_what_is_ours_alone_is_called_superfluous() -> None:
    space = Pattern("topic", PREFIXED, "ns.")
    given = [
        *(need.acl for need in needed("reconcile")),
        Acl(space, "Write"),
        Acl(space, "Describe"),
        Acl(Pattern("topic", LITERAL, "ns.audit"), "Read"),
        Acl(Pattern("group", LITERAL, "ns-reconcile"), "Delete"),
        Acl(Pattern("group", LITERAL, "of-others"), "Delete"),
        Acl(Pattern("topic", LITERAL, "orders"), "Write"),
        Acl(Pattern("topic", LITERAL, "*"), "All"),
    ]
    found = [described(acl) for acl in judged("reconcile", listed(given)).superfluous]
    assert found == ["Write on topic ns.*", "Delete on group ns-reconcile"]


def test_the_doctor_warns_of_what_topics_do_not_show() -> None:
    wanted = [need for need in needed(*ROLES) if is_unseen(need)]
    assert {asked(need.acl.operation) for need in wanted} == {"CREATE", "DESCRIBE", "READ", "WRITE"}
    missing, unknown = wanted[:1], wanted[1:2]
    found = list(unseen_rights(Verdict(missing, unknown, [])))
    assert [(one.level, one.check) for one in found] == [("warn", "rights"), ("ok", "rights")]
    assert found[0].detail.startswith("not allowed: Create on topic ns.* (for worker, api, proxy): ")
    assert found[1].detail.endswith("Describe on group ns-worker")
    assert list(unseen_rights(Verdict([], [], []))) == []
