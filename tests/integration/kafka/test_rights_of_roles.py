"""Every role works under exactly the ACLs that `delayline kafka acls` prints for it, and with one fewer it is
refused something."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from cli import kafka_rights as table
from cli.kafka_rights import RIGHTS, Right
from delayline.errors import DelaylineError
from mq.contract import Append
from tests.integration.kafka import behind_strict as behind
from tests.integration.kafka import strict as on
from tests.integration.kafka.conftest import body
from tests.integration.kafka.strict import Doing, Strict

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

pytestmark = pytest.mark.thorough

OF_ALL: Mapping[tuple[str, str], Doing] = {
    (table.OWN, "Create"): on.make_buffer,
    (table.OWN, "AlterConfigs"): on.repair_settings,
    (table.OWN, "Alter"): on.add_partitions,
    (table.TARGETS, "DescribeConfigs"): on.make_buffer,
    (table.WORKER_GROUP, "Describe"): on.find_owners,
}
DOES: Mapping[str, Mapping[tuple[str, str], Doing]] = {
    "worker": {
        (table.OWN, "Read"): on.read_as_worker,
        (table.OWN, "Write"): on.deliver,
        (table.OWN, "Delete"): on.trim,
        (table.TARGETS, "Write"): on.deliver,
        (table.TARGETS, "Read"): on.look_at_open_transactions,
        (table.WORKER_GROUP, "Read"): on.join,
        (table.RECONCILE_GROUP, "Describe"): on.read_how_far_audited,
        (table.OUR_IDS, "Write"): on.deliver,
        (table.CLIENTS_IDS, "Describe"): on.finish_clients,
        (table.CLUSTER, "Alter"): on.finish_own,
    },
    "api": {
        (table.OWN, "Read"): on.read_pending,
        (table.OWN, "Write"): on.append_delayed,
        (table.TARGETS, "Write"): on.append_at_once,
        (table.TARGETS, "Read"): on.read_delivered,
        (table.OUR_IDS, "Write"): on.append_several,
        (table.CLUSTER, "Alter"): on.recover,
    },
    "proxy": {
        (table.OWN, "Read"): behind.pass_on_over_a_new_connection,
        (table.OWN, "Write"): behind.pass_on,
        (table.TARGETS, "Read"): behind.pass_on_over_a_new_connection,
        (table.CLIENTS_IDS, "Write"): behind.pass_on_in_a_transaction,
    },
    "reconcile": {
        (table.OWN, "Read"): behind.read_accepted,
        (table.TARGETS, "DescribeConfigs"): behind.read_kept,
        (table.TARGETS, "Read"): behind.read_delivered,
        (table.WORKER_GROUP, "Describe"): behind.read_rules,
        (table.RECONCILE_GROUP, "Read"): behind.commit,
    },
}
"""By role and right: what it does that it needs the right for."""

NEEDED = [(role, right) for role in table.ROLES for right in RIGHTS if role in right.roles]


def test_everything_that_is_done_here_has_its_right_in_the_table() -> None:
    done = {(role, *key) for role, of_role in DOES.items() for key in of_role}
    assert done <= {(role, right.resource, right.operation) for role, right in NEEDED}
    assert set(OF_ALL) <= {(right.resource, right.operation) for _, right in NEEDED}


def doing(role: str, right: Right) -> Doing:
    key = right.resource, right.operation
    return DOES[role].get(key) or OF_ALL[key]


@pytest.fixture
def place(strict_kafka: "Kafka") -> "Iterator[Strict]":
    with ExitStack() as stack:
        yield Strict(strict_kafka, stack)


def ids(of: "tuple[str, Right]") -> str:
    role, right = of
    return f"{role}-{right.operation}-{right.resource.split()[0]}"


@pytest.mark.parametrize("of", NEEDED, ids=ids)
def test_a_role_does_what_each_right_is_for_under_exactly_its_acls(place: Strict, of: "tuple[str, Right]") -> None:
    role, right = of
    place.grant([need.acl for need in place.needs(role)])
    doing(role, right)(place, place.as_delayline())


def test_a_repair_is_sent_with_the_rights_of_an_api_process(place: Strict) -> None:
    place.grant([need.acl for need in place.needs("api")])
    place.make_buffer()
    queue = place.as_delayline()
    with closing(queue.claim("repair")) as claim:
        claim.append([Append(place.buffer, "0", body(b"2"))])
    assert len(queue.read(place.buffer, "0", 0, 10)) == 2
    assert queue.read_cursor_unfenced(place.shard) is None


@pytest.mark.parametrize("of", NEEDED, ids=ids)
def test_with_one_acl_fewer_it_is_refused(place: Strict, of: "tuple[str, Right]") -> None:
    role, right = of
    place.grant_all_but(role, right)
    with pytest.raises((DelaylineError, AssertionError)):
        doing(role, right)(place, place.as_delayline())
