"""Worker, API, Kafka proxy and reconcile job, each with a principal of its own and the ACLs that
`delayline kafka acls` prints for it."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.kafka_rights import ROLES
from mq.kafka.admin.acl import Acl, Pattern, without_implied
from mq.kafka.librdkafka.bodies import Headers
from mq.kafka.settings import KafkaSettings
from tests.acceptance.asking import HTTP, Ran, answer_of, run, run_in, send, wait_for
from tests.brokers.distribution import NEWEST, fetch
from tests.brokers.kafka import QUICK_START, java
from tests.fault.server import Server
from tests.integration.kafka import behind_strict as behind
from tests.integration.kafka.behind_strict import DELAYED, client, produce
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, soon
from tests.integration.kafka.strict import DELAYLINE, Strict, login
from tests.integration.proxy.child import Child
from tests.integration.proxy.conftest import Proxy, held
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

pytestmark = pytest.mark.thorough

SOON_DUE: Headers = [("delay", b"1s")]


@pytest.fixture
def place(strict_kafka: "Kafka") -> "Iterator[Strict]":
    with ExitStack() as stack:
        yield Strict(strict_kafka, stack)


def settings_of(place: Strict, user: str) -> dict[str, str]:
    """Of a process that logs in as `user`."""
    return {
        "mq__kind": "kafka",
        "mq__bootstrap_servers": place.kafka.sasl_servers,
        "mq__properties": json.dumps(login(user)),
        "namespace": place.namespace,
        "delay__topics": place.topic,
        "delay__discovery_interval": "200ms",
        "internal__secret": "of-these-processes",
    }


def acls(place: Strict, role: str, *options: str, user: str = "") -> Ran:
    """The command, asked by the role's own principal, or another user."""
    ids = ["--transactional-id", f"{place.client_id}*"]
    return run("kafka", "acls", "--role", role, *ids, *options, **settings_of(place, user or role))


def allow(place: Strict, role: str) -> list[Acl]:
    """What the command prints for programs."""
    shown = answer_of(acls(place, role, "--format", "json"))
    assert shown["principals"] == [f"User:{role}"]
    printed = [Acl(Pattern(one["resource"], one["pattern"], one["name"]), one["operation"]) for one in shown["acls"]]
    place.grant(printed, f"User:{role}")
    return printed


@pytest.fixture
def servers(place: Strict, tmp_path: Path) -> "Iterator[tuple[Server, Proxy]]":
    """The API, and the proxy's ports."""
    for role in ROLES:
        allow(place, role)
    with ExitStack() as stack:
        started = [Server(tmp_path / role, role, **settings_of(place, role)) for role in ("worker", "api")]
        for server in started:
            stack.callback(server.kill)
            server.start()
        proxy = Proxy(place, place.stack)
        environ = {f"DELAYLINE_{name.upper()}": value for name, value in settings_of(place, "proxy").items()}
        child = stack.enter_context(closing(Child(proxy, tmp_path, environ=environ)))
        child.start()
        for server in started:
            server.wait_ready()
        yield started[1], proxy


def values(place: Strict) -> list[str]:
    return sorted(one.value().decode() for one in held(place.kafka.bootstrap_servers, place.topic))


def test_all_processes_do_their_work(place: Strict, servers: "tuple[Server, Proxy]") -> None:
    api, proxy = servers
    at_once = {"messages": [{"value": value} for value in ("at once", "and this")]}
    assert HTTP.post(f"{api.url}/v1/topics/{place.topic}/messages", json=at_once).status_code == 201
    send(api.url, place.topic, ["delayed", "that too"], delay="1s")
    (one,) = send(api.url, place.topic, ["cancelled"], delay="1h")
    where = f"{api.url}/v1/messages"
    listed = wait_for(lambda: messages(where, place.topic, "cancelled", one), bool)
    assert listed
    assert HTTP.delete(f"{where}/{one['message_id']}").status_code == 204

    behind.allow_client(place)
    producer = client(proxy.address, **{"message.timeout.ms": 30_000})
    assert produce(producer, place.topic, [], SOON_DUE) == [None, None]
    transactional = client(proxy.address, **{"transactional.id": place.client_id, "message.timeout.ms": 30_000})
    transactional.init_transactions(PATIENCE_S)
    transactional.begin_transaction()
    assert produce(transactional, place.topic, [], SOON_DUE, DELAYED) == [None, None, None]
    transactional.commit_transaction(PATIENCE_S)

    wanted = sorted(["at once", "and this", "delayed", "that too", "0", "1", "0", "1"])
    assert wait_for(lambda: values(place), lambda found: len(found) >= len(wanted)) == wanted
    read_as_reconcile_job(place)
    for role in ROLES:
        checked = acls(place, role, "--check")
        assert (checked.code, checked.out) == (0, f"User:{role}: nothing is missing\n"), checked
        assert "not needed" not in checked.err


def messages(where: str, topic: str, value: str, one: dict[str, Any]) -> bool:
    found = HTTP.get(where, params={"topic": topic}).json()
    return found["complete"] and one["message_id"] in [message["message_id"] for message in found["messages"]]


def read_as_reconcile_job(place: Strict) -> None:
    """What it asks itself, without Spark, which only distributes it."""
    from reconcile.readers.kafka import KafkaReader

    settings = KafkaSettings(
        bootstrap_servers=place.kafka.sasl_servers, namespace=place.namespace, properties=login("reconcile")
    )
    with closing(KafkaReader(settings, CLOCK)) as reader:
        held = reader.held()
        shards = held.buffers[place.topic].shards
        assert sum(end - start for start, end in shards.values()) >= 7
        assert reader.hidden({place.topic}) == {}
        assert reader.kept_since_ms(place.topic) == {}
        reader.rules(place.topic, list(shards))
        for number, part in shards.items():
            reader.is_empty(place.topic, number, part)
        assert not all(reader.is_empty(None, number, part) for number, part in held.audit.items())
        reader.commit({place.topic: {number: part.end for number, part in shards.items()}}, {}, CLOCK.now_ms())


# --- the command against brokers


def test_a_check_names_what_is_missing_and_what_is_too_much(place: Strict) -> None:
    printed = allow(place, "proxy")
    may_list = Acl(Pattern("cluster", "literal", "kafka-cluster"), "Describe")
    assert "not known: Write on transactional-id" in acls(place, "proxy", "--check").err

    place.grant([may_list])
    asked = ["--principal", "User:proxy", "--check"]
    well = acls(place, "proxy", *asked, user="alice")
    assert (well.code, well.out, well.err) == (0, "User:proxy: nothing is missing\n", "")

    place.revoke()
    place.grant([may_list])
    (without,) = (acl for acl in printed if acl.operation == "Create")
    too_much = without._replace(operation="Delete")
    place.grant([*(acl for acl in printed if acl != without), too_much], "User:proxy")
    wrong = acls(place, "proxy", *asked, user="alice")
    assert wrong.code == 1
    assert wrong.err == f"User:proxy: not needed: Delete on topic {place.namespace}.*\n"
    assert [line.split()[:4] for line in wrong.out.splitlines()[2:]] == [
        ["topic", "prefixed", f"{place.namespace}.", "Create"]
    ]
    shown = acls(place, "proxy", *asked, "--format", "json", user="alice")
    (judged,) = json.loads(shown.out)["principals"]
    assert (judged["ok"], [one["operation"] for one in judged["missing"]]) == (False, ["Create"])


def test_without_the_right_to_list_another_principal_cannot_be_looked_at(place: Strict) -> None:
    allow(place, "proxy")
    refused = acls(place, "worker", "--check", "--principal", "User:worker", user="proxy")
    assert refused.code == 1
    assert "needs Describe on the cluster" in refused.err


def test_the_doctor_names_what_processes_need_that_have_another_principal(place: Strict, tmp_path: Path) -> None:
    allow(place, "worker")
    place.make_buffer()
    at = {"api__port": str(free_port()), "store__disk_free_min": "1MiB"}
    looked = run_in(tmp_path, "doctor", "--json", **settings_of(place, "worker"), **at)
    rights = [found["detail"] for found in json.loads(looked.out)["findings"] if found["check"] == "rights"]
    group = f"group {place.namespace}-reconcile"
    assert looked.code == 0, looked
    assert rights == [
        f"not allowed: Read on {group} (for reconcile): to commit how far the buffers have been audited"
    ]


def test_topics_that_exist_are_named_for_a_pattern_that_no_acl_is_like(place: Strict) -> None:
    place.grant([Acl(Pattern("topic", "literal", place.topic), "Describe")], "User:api")
    pattern = {**settings_of(place, "api"), "delay__topics": f"?{place.topic[1:]}"}
    offline = run("kafka", "acls", "--role", "api", **pattern)
    assert (offline.code, "--existing" in offline.err) == (2, True)
    shown = answer_of(run("kafka", "acls", "--role", "api", "--existing", "--format", "json", **pattern))
    named = {one["name"] for one in shown["acls"] if one["resource"] == "topic" and one["pattern"] == "literal"}
    assert named == {place.topic}


def test_the_command_lines_do_what_they_are_for(place: Strict, tmp_path: Path) -> None:
    """Pasted into a shell, with the tool of the distribution."""
    tool = tmp_path / "kafka-acls.sh"
    words = java(fetch(NEWEST), QUICK_START)
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(words)} org.apache.kafka.tools.AclCommand "$@"\n')
    tool.chmod(0o755)
    super_user = {**settings_of(place, "root"), "mq__bootstrap_servers": place.kafka.bootstrap_servers}
    del super_user["mq__properties"]
    asked = [
        "kafka",
        "acls",
        "--role",
        "serve",
        "--principal",
        DELAYLINE,
        "--transactional-id",
        f"{place.client_id}*",
    ]
    printed = run(*asked, "--format", "commands", **super_user).out
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-e"], input=printed, env=environ, text=True, check=True, capture_output=True)
    wanted = len(without_implied(need.acl for need in place.needs("worker", "api", "proxy")))
    soon(lambda: len(place.bindings(DELAYLINE)) == wanted)
    (verdict,) = json.loads(run(*asked, "--check", "--format", "json", **super_user).out)["principals"]
    assert verdict == {"principal": DELAYLINE, "ok": True, "missing": [], "unknown": [], "superfluous": []}
