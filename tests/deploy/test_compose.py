"""Our files for Compose, as far as that can be looked at without an engine: there is none where the tests run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from delayline.config import load_settings
from proxy.rocketmq.view.ports import Ports
from tests.brokers.rocketmq import VERSION
from tests.deploy.commands import parse
from tests.deploy.compose import (
    FILES,
    FILLED,
    Missing,
    broker_conf,
    delayline_services,
    is_serving,
    read_compose,
)
from tests.deploy.test_image import PINNED, TARGETS

SECRET = FILLED["DELAYLINE_INTERNAL__SECRET"]
DOCUMENTS = {kind: read_compose(file) for kind, file in FILES.items()}
SERVICES = [(kind, name) for kind, document in DOCUMENTS.items() for name in document["services"]]
OURS = [(kind, name) for kind, document in DOCUMENTS.items() for name in delayline_services(document)]
ON_ROCKETMQ = DOCUMENTS["rocketmq"]["services"]
OF_ROCKETMQ = ["nameserver", "broker", "mqadmin"]
BEFORE_OURS = {"kafka": "kafka", "rocketmq": "broker"}
"""The service for which ours wait."""


def service(kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENTS[kind]["services"][name]
    return found


def volumes(kind: str, name: str) -> dict[str, str]:
    """Where a service has what is kept, by the volume; files of the folder left out."""
    given = [one.split(":") for one in service(kind, name).get("volumes", [])]
    return {source: rest[0] for source, *rest in given if not source.startswith("./")}


# --- what the files contain


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_what_the_specification_of_compose_allows(kind: str, tmp_path: Path) -> None:
    """As it is read: the schema knows no tags."""
    read = tmp_path / "docker-compose.json"
    read.write_text(json.dumps(DOCUMENTS[kind]))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(read)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def compose_command() -> list[str]:
    """Compose itself, which needs no engine to read a file."""
    if path := shutil.which("docker-compose"):
        return [path]
    plugin = ["docker", "compose"]
    if shutil.which("docker") and subprocess.run([*plugin, "version"], capture_output=True).returncode == 0:
        return plugin
    pytest.skip("Compose is not installed")


@pytest.mark.parametrize("kind", FILES)
def test_compose_reads_a_file_as_these_tests_do(kind: str) -> None:
    command = [*compose_command(), "--profile", "*", "--file", str(FILES[kind]), "config", "--format", "json"]
    answer = subprocess.run(command, env={**os.environ, **FILLED}, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    theirs = json.loads(answer.stdout)["services"]
    assert set(theirs) == set(DOCUMENTS[kind]["services"])
    for name, one in theirs.items():
        for key in ("image", "environment", "command", "entrypoint", "profiles", "tmpfs", "user", "read_only"):
            assert one.get(key) == service(kind, name).get(key), (name, key)
        assert set(one.get("depends_on", {})) == set(service(kind, name).get("depends_on", {})), name


@pytest.mark.parametrize("kind", FILES)
def test_without_a_secret_of_ones_own_nothing_starts(kind: str) -> None:
    with pytest.raises(Missing, match=r"write one into \.env"):
        read_compose(FILES[kind], {})
    assert SECRET not in FILES[kind].read_text()


@pytest.mark.parametrize(("kind", "name"), SERVICES)
def test_a_service_is_bounded_watched_and_not_root(kind: str, name: str) -> None:
    one, serves = service(kind, name), is_serving(DOCUMENTS[kind], name)
    assert PINNED.fullmatch(f"{one['image']}")
    assert re.fullmatch(r"\d+[mg]", one["mem_limit"])
    assert one["cap_drop"] == ["ALL"]
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert one["restart"] == ("unless-stopped" if serves else "no")
    assert one["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert not serves or one["healthcheck"]["test"][0] == "CMD"
    assert (one.get("user", "").startswith("0") or "cap_add" in one) == (name == "volume")


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_a_service_of_ours_cannot_write_but_where_a_volume_is(kind: str, name: str) -> None:
    one = service(kind, name)
    assert one["user"] == "10001:10001"
    assert one["read_only"] is True
    runs_java = one["build"]["target"] == "reconcile"
    assert one["tmpfs"] == ["/tmp:exec" if runs_java else "/tmp"], "Java loads libraries from there"
    assert set(volumes(kind, name).values()) <= {"/var/lib/delayline"}


@pytest.mark.parametrize("kind", FILES)
def test_every_volume_is_declared_and_used(kind: str) -> None:
    used = {volume for name in DOCUMENTS[kind]["services"] for volume in volumes(kind, name)}
    assert used == set(DOCUMENTS[kind]["volumes"])


def test_installations_share_no_volume() -> None:
    assert len({document["name"] for document in DOCUMENTS.values()}) == len(DOCUMENTS)


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_a_service_of_ours_is_built_from_the_dockerfile_and_waits_for_the_broker(kind: str, name: str) -> None:
    one = service(kind, name)
    image, _, _ = one["image"].partition(":")
    assert TARGETS[one["build"]["target"]] == image
    assert one["depends_on"] == {BEFORE_OURS[kind]: {"condition": "service_healthy"}}


@pytest.mark.parametrize("kind", FILES)
def test_nothing_is_published_but_to_this_machine(kind: str) -> None:
    published = [port for one in DOCUMENTS[kind]["services"].values() for port in one.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_a_command_is_one_and_its_variables_are_settings(kind: str, name: str, tmp_path: Path) -> None:
    assert parse(service(kind, name)["command"])
    settings = load_settings(None, {}, service(kind, name)["environment"], tmp_path)
    assert settings.internal.secret.get_secret_value() == SECRET
    assert settings.mq.kind == kind


@pytest.mark.parametrize(("kind", "name"), [one for one in OURS if is_serving(DOCUMENTS[one[0]], one[1])])
def test_health_is_asked_where_the_process_answers(kind: str, name: str, tmp_path: Path) -> None:
    one = service(kind, name)
    settings = load_settings(None, {}, one["environment"], tmp_path)
    ports = {
        "api": settings.api.port,
        "worker": settings.worker.port,
        "proxy kafka": settings.proxy.kafka.metrics_port,
        "proxy rocketmq": settings.proxy.rocketmq.metrics_port,
    }
    assert f"http://127.0.0.1:{ports[parse(one['command'])]}/readyz" in " ".join(one["healthcheck"]["test"])


@pytest.mark.parametrize("kind", FILES)
def test_workers_are_distinguished_and_keep_what_is_their_own(kind: str) -> None:
    workers = {name: one for name, one in DOCUMENTS[kind]["services"].items() if one.get("command") == ["worker"]}
    assert len(workers) >= 2
    for name, one in workers.items():
        assert one["environment"]["DELAYLINE_INTERNAL__ADVERTISED_HOST"] == name
        assert volumes(kind, name) == {name: "/var/lib/delayline"}


@pytest.mark.parametrize("kind", FILES)
def test_every_container_of_the_job_has_the_name_by_which_it_knows_that_the_one_before_is_gone(kind: str) -> None:
    assert service(kind, "reconcile")["hostname"] == "reconcile"


def test_the_ports_of_the_proxy_are_published_as_advertised() -> None:
    proxy = service("kafka", "proxy")
    settings = load_settings(None, {}, proxy["environment"], Path("/")).proxy.kafka
    ports = f"{settings.port}-{settings.port + settings.nodes_max}"
    assert proxy["ports"] == [f"{settings.advertised_host}:{ports}:{ports}"]
    assert int(service("kafka", "kafka")["environment"]["KAFKA_NODE_ID"]) == settings.node_id_base


# --- RocketMQ


def test_the_ports_of_the_rocketmq_proxy_are_published_as_advertised() -> None:
    proxy = service("rocketmq", "proxy")
    ours = load_settings(None, {}, proxy["environment"], Path("/")).proxy.rocketmq
    assert ours.brokers == (broker_conf()["brokerName"],)
    ports = f"{ours.port}-{Ports(ours.port, ours.brokers_max, ours.broker_ids_max).last}"
    assert proxy["ports"] == [f"{ours.advertised_host}:{ports}:{ports}"]


def test_rocketmq_is_of_the_version_that_is_tested() -> None:
    images = {one["image"] for name, one in ON_ROCKETMQ.items() if ("rocketmq", name) not in OURS}
    assert images == {f"apache/rocketmq:{VERSION}"}


def java_of(name: str) -> list[str]:
    """The command line of one of RocketMQ's programs."""
    one = ON_ROCKETMQ[name]
    return [*one.get("entrypoint", []), *one.get("command", [])]


@pytest.mark.parametrize("name", OF_ROCKETMQ)
def test_a_program_of_rocketmq_is_started_as_java_and_writes_where_it_may(name: str) -> None:
    one = ON_ROCKETMQ[name]
    assert (java_of(name)[0], one["init"]) == ("java", True), "the signal to stop reaches it"
    assert (one["read_only"], one["tmpfs"]) == (True, ["/tmp:exec"])
    (home,) = (option.partition("=")[2] for option in java_of(name) if option.startswith("-Duser.home="))
    assert home in {"/tmp", *volumes("rocketmq", name).values()}


@pytest.mark.parametrize("name", OF_ROCKETMQ)
def test_a_program_of_rocketmq_reads_files_that_are_there(name: str) -> None:
    given = [one.split(":") for one in ON_ROCKETMQ[name]["volumes"] if one.startswith("./")]
    assert {mode for _, _, mode in given} == {"ro"}
    assert [source for source, *_ in given if not (FILES["rocketmq"].parent / source).is_file()] == []
    named = {found for one in java_of(name) for found in re.findall(r"/etc/\S+", one)}
    assert named == {target for _, target, _ in given}


def test_clients_find_the_broker_and_the_broker_the_name_server() -> None:
    conf = broker_conf()
    assert conf["brokerIP1"] == "broker"
    name_server = ON_ROCKETMQ["api"]["environment"]["DELAYLINE_MQ__BOOTSTRAP_SERVERS"]
    assert conf["namesrvAddr"] == name_server
    assert ON_ROCKETMQ["mqadmin"]["environment"] == {"NAMESRV_ADDR": name_server}
    host, _, port = name_server.partition(":")
    assert f"/dev/tcp/127.0.0.1/{port}" in ON_ROCKETMQ[host]["healthcheck"]["test"][-1]
    assert f"/dev/tcp/127.0.0.1/{conf['listenPort']}" in ON_ROCKETMQ["broker"]["healthcheck"]["test"][-1]


def test_what_the_broker_stores_is_on_its_volume_which_its_user_owns() -> None:
    (volume,) = volumes("rocketmq", "broker").items()
    assert {one.startswith(f"{volume[1]}/") for key, one in broker_conf().items() if key.startswith("store")} == {
        True
    }
    first = ON_ROCKETMQ["volume"]
    assert volumes("rocketmq", "volume") == dict([volume])
    assert first["entrypoint"] == ["chown", ON_ROCKETMQ["broker"]["user"], volume[1]]
    assert (first["cap_add"], first["network_mode"]) == (["CHOWN"], "none")


def test_the_broker_keeps_messages_longer_than_by_default_whatever_the_disk_holds() -> None:
    conf = broker_conf()
    assert int(conf["fileReservedTime"]) > 72
    assert conf["cleanFileForciblyEnable"] == "false"
    assert conf["flushDiskType"] == "SYNC_FLUSH"
