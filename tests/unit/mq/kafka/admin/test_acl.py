"""What ACLs allow, as Kafka's authorizer reads them."""

import pytest

from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Binding, Pattern, grants, is_granted, without_implied

ORDERS = Pattern("topic", LITERAL, "orders")
ANY_TOPIC = Pattern("topic", LITERAL, "*")


def prefixed(name: str, kind: str = "topic") -> Pattern:
    return Pattern(kind, PREFIXED, name)


@pytest.mark.parametrize(
    ("pattern", "other", "covers", "overlaps"),
    [
        (ORDERS, ORDERS, True, True),
        (ORDERS, Pattern("topic", LITERAL, "orders-2"), False, False),
        (ORDERS, Pattern("group", LITERAL, "orders"), False, False),
        (prefixed("ord"), ORDERS, True, True),
        (ORDERS, prefixed("ord"), False, True),
        (prefixed("ord"), prefixed("orders"), True, True),
        (prefixed("orders"), prefixed("ord"), False, True),
        (prefixed("orders-"), ORDERS, False, False),
        (ANY_TOPIC, ORDERS, True, True),
        (ANY_TOPIC, prefixed("ord"), True, True),
        (prefixed("ord"), ANY_TOPIC, False, True),
        (prefixed("*"), ANY_TOPIC, False, True),
        (ANY_TOPIC, Pattern("group", LITERAL, "g"), False, False),
    ],
)
def test_a_pattern_covers_names_and_beginnings_of_names(
    pattern: Pattern, other: Pattern, covers: bool, overlaps: bool
) -> None:
    assert (pattern.covers(other), pattern.overlaps(other)) == (covers, overlaps)


@pytest.mark.parametrize("operation", ["Read", "Write", "Delete", "Alter", "Describe", "All"])
def test_describe_is_part_of_what_kafka_includes_it_in(operation: str) -> None:
    assert grants(Acl(ORDERS, operation), Acl(ORDERS, "Describe"))
    assert operation in ("Describe", "All") or not grants(Acl(ORDERS, "Describe"), Acl(ORDERS, operation))


@pytest.mark.parametrize("operation", ["Create", "AlterConfigs", "DescribeConfigs"])
def test_describe_is_no_part_of_the_others(operation: str) -> None:
    assert not grants(Acl(ORDERS, operation), Acl(ORDERS, "Describe"))


WANTED = Acl(prefixed("orders-"), "Read")


def allowed(acl: Acl, principal: str = "User:a", host: str = "*") -> Binding:
    return Binding(acl, principal, host, allows=True)


def denied(acl: Acl, principal: str = "User:a", host: str = "*") -> Binding:
    return Binding(acl, principal, host, allows=False)


@pytest.mark.parametrize(
    ("bindings", "granted"),
    [
        ([], False),
        ([allowed(WANTED)], True),
        ([allowed(WANTED, "User:b")], False),
        ([allowed(WANTED, "User:*")], True),
        ([allowed(WANTED, host="10.0.0.1")], False),
        ([allowed(Acl(ANY_TOPIC, "All"))], True),
        ([allowed(Acl(Pattern("topic", LITERAL, "orders-1"), "Read"))], False),
        ([allowed(WANTED), denied(Acl(Pattern("topic", LITERAL, "orders-1"), "Read"))], False),
        ([allowed(WANTED), denied(Acl(ANY_TOPIC, "All"), "User:*", "10.0.0.1")], False),
        ([allowed(WANTED), denied(Acl(ANY_TOPIC, "Write"))], True),
        ([allowed(WANTED), denied(Acl(ANY_TOPIC, "All"), "User:b")], True),
    ],
)
def test_an_operation_is_granted_for_all_of_a_pattern_or_not(bindings: list[Binding], granted: bool) -> None:
    assert is_granted(WANTED, bindings, "User:a") is granted


def test_what_another_acl_includes_is_left_out() -> None:
    read, describe = Acl(prefixed("ord"), "Read"), Acl(ORDERS, "Describe")
    assert without_implied([describe, read, read, Acl(ORDERS, "Write")]) == [read, Acl(ORDERS, "Write")]
