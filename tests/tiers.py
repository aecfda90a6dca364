"""Which tests `make test` leaves to `make test-all`: README.md, beside this file, explains which and why.

A test is for the thorough run alone where it is marked `thorough`, or where its parameter is. `sample`
marks parameters.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("THOROUGH"))
"""Set by `make test-all`, for what has no parameters to leave out: how many examples a property is tried with."""

QUICK = bool(os.environ.get("QUICK"))
"""Set by `make quick`, for the same."""

LEFT_OUT = {
    "tests/acceptance/test_more_partitions_on_kafka.py": "topics that grow; each run has units of it",
    "tests/acceptance/test_rocketmq_clients_and_brokers.py": "a broker that is killed; each run has clients on one",
    "tests/acceptance/test_rocketmq_accounts.py": "access control is the broker's; each run has accounts in units",
    "tests/acceptance/test_rocketmq_transactions.py": "brokers that ask for outcomes; each run has halves in units",
    "tests/acceptance/test_rules_on_kafka.py": "rules over several processes; each run has them in one",
    "tests/acceptance/test_tenants_page.py": "a broker of its own; each run has keys, rules and TLS apart",
    "tests/console/test_reconcile_report.py": "how a page looks; each run has its content",
    "tests/deploy/test_compose_at_work.py": "starts everything that Compose would; each run has the parts",
    "tests/fault/rocketmq_proxy/test_short_proof.py": "proxies and workers killed; each run has workers",
    "tests/foreign/test_foreign.py": "needs the tools of other languages; each run has librdkafka and Python's",
    "tests/foreign/test_foreign_rocketmq.py": "needs the tools of other languages; each run has Java's client",
    "tests/integration/kafka/test_attacks_on_rights.py": "a broker of its own; each run has a client without Write",
    "tests/integration/kafka/test_hanging.py": "three nodes, and transactions that wait; each run has their model",
    "tests/integration/kafka/test_kerberos.py": "a broker and a KDC of its own; each run has the login's units",
    "tests/integration/kafka/test_members.py": "an outage",
    "tests/integration/kafka/test_outage.py": "an outage",
    "tests/integration/kafka/test_processes_under_their_rights.py": "a broker of its own; each run has a worker",
    "tests/integration/kafka/test_rights_of_roles.py": "a broker of its own; each run has a worker's rights",
    "tests/integration/kafka/test_secured.py": "a broker of its own; each run logs in through the proxy",
    "tests/integration/kafka/test_tokens.py": "a broker of its own; each run has the login's units",
    "tests/integration/proxy/test_cluster.py": "three nodes; each run has one proof with a broker killed",
    "tests/integration/rocketmq/test_claims.py": "claims cut off on a broker; each run has them on one in memory",
    "tests/integration/rocketmq/test_deleted_topics.py": "workers that start anew; each run has the rules in units",
    "tests/integration/rocketmq/test_elections.py": "three nodes; each run has what an election changes in its units",
    "tests/integration/rocketmq/test_frozen_worker.py": "a worker that is stopped; each run has lapses in its units",
    "tests/integration/rocketmq/test_refusals.py": "a real broker's refusals; each run has what its codes mean",
    "tests/integration/rocketmq/test_replicas.py": "three brokers; each run has routes with replicas in its units",
    "tests/integration/rocketmq/test_rights.py": "access control is the broker's",
    "tests/integration/rocketmq/test_several_brokers.py": "two masters; each run has owners on two in its units",
    "tests/integration/rocketmq/test_tls.py": "servers of its own; each run has the client's TLS in its units",
    "tests/reconcile/test_at_once.py": "whole runs, step by step; each run has two repairs, and the lock",
    "tests/reconcile/test_class_archive.py": "a Java of its own; each run has its units",
    "tests/reconcile/test_end_to_end_kafka.py": "each run has the readers of Kafka, and the job on files",
    "tests/reconcile/test_end_to_end_rocketmq.py": "each run has the reader of RocketMQ, and the job on files",
    "tests/reconcile/test_lost_successor.py": "whole runs; each run finds it among generated messages",
    "tests/reconcile/test_memory.py": "a Java of its own; each run has the job on files",
    "tests/reconcile/test_merging.py": "whole runs; each run kills a protocol that merges in its units",
}
"""Modules of which `make test` runs nothing, and why."""

NEVER_LEFT_OUT = (
    "tests/fault/test_embedded_kill.py::test_a_queue_killed_again_and_again_keeps_what_it_acknowledged_once",
    "tests/fault/test_kill_under_load.py::"
    "test_what_was_acknowledged_arrives_exactly_once_and_never_early_through_sigkills",
    "tests/fault/kafka/test_short_proof.py::"
    "test_what_is_sent_arrives_once_in_order_and_never_early_whatever_is_killed",
    "tests/fault/proxy/test_short_proof.py::"
    "test_nothing_is_lost_doubled_or_misplaced_when_proxies_and_the_broker_are_killed",
    "tests/fault/wire/test_short_storm.py::"
    "test_a_worker_behind_a_broker_that_does_what_it_likes_delivers_everything_once",
    "tests/simulation/test_simulation.py::test_no_seed_breaks_a_promise",
    "tests/simulation/test_real_worker.py::test_no_promise_is_broken_whatever_fails",
    "tests/machine/test_machine.py::test_the_worker_and_its_model_come_to_the_same",
    "tests/reconcile/test_generated.py::test_exactly_what_went_wrong_is_found",
)
"""One for each kind of fault that may lose, double or hasten a message."""

ELSEWHERE = ("thorough", "outage", "foreign")
"""Marks of what `make test` leaves out."""

Collected = tuple[str, bool]
"""A test's id, and whether `make test` leaves it out."""


def examples(count: int) -> int:
    """How many to try: so many in the thorough run, a quarter of them in each run, a sixteenth in the quick one."""
    return count if THOROUGH else max(5, count // (16 if QUICK else 4))


def sample(values: Iterable[Any], *, every: int) -> list[Any]:
    """The values as parameters: the first and every so many-th after it in each run, the others in the thorough one.

    A tuple is the values of several arguments.
    """
    return [_param(value, thorough=number % every != 0) for number, value in enumerate(values)]


def _param(value: Any, *, thorough: bool) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=[pytest.mark.thorough] if thorough else [])


def collected(items: Iterable[pytest.Item]) -> list[Collected]:
    """Before any is deselected."""
    return [(item.nodeid, any(item.get_closest_marker(name) for name in ELSEWHERE)) for item in items]


def modules_left_out(tests: Iterable[Collected]) -> set[str]:
    """Those of which `make test` runs nothing."""
    modules: dict[str, bool] = {}
    for nodeid, is_left_out in tests:
        module = nodeid.partition("::")[0]
        modules[module] = modules.get(module, True) and is_left_out
    return {module for module, is_left_out in modules.items() if is_left_out}


def missed(tests: Iterable[Collected]) -> list[str]:
    """What `make test` must run and does not."""
    run = {nodeid for nodeid, is_left_out in tests if not is_left_out}
    return [nodeid for nodeid in NEVER_LEFT_OUT if nodeid not in run]
