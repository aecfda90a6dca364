"""docker-compose.yml, as far as that can be looked at without an engine: there is none where the tests run."""

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
from tests.deploy.commands import parse
from tests.deploy.compose import FILE, Missing, delayline_services, is_serving, read_compose
from tests.deploy.test_image import PINNED, TARGETS

SECRET = "sixteen letters!"
FILLED = {"DELAYLINE_INTERNAL__SECRET": SECRET}

DOCUMENT = read_compose(FILLED)
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = delayline_services(DOCUMENT)


# --- what the file contains


def test_the_file_is_what_the_specification_of_compose_allows() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
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


def test_compose_reads_the_file_as_these_tests_do() -> None:
    command = [*compose_command(), "--profile", "*", "--file", str(FILE), "config", "--format", "json"]
    answer = subprocess.run(command, env={**os.environ, **FILLED}, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    theirs = json.loads(answer.stdout)["services"]
    assert {name: one.get("environment") for name, one in theirs.items()} == {
        name: one.get("environment") for name, one in SERVICES.items()
    }
    assert {name: one.get("command") for name, one in theirs.items()} == {
        name: one.get("command") for name, one in SERVICES.items()
    }


def test_without_a_secret_of_ones_own_nothing_starts() -> None:
    with pytest.raises(Missing, match=r"write one into \.env"):
        read_compose({})
    assert SECRET not in FILE.read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_bounded_watched_and_not_root(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(f"{service['image']}")
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == ("unless-stopped" if is_serving(service) else "no")
    assert not is_serving(service) or service["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_cannot_write_but_where_a_volume_is(name: str) -> None:
    service = OURS[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    runs_java = service["build"]["target"] == "reconcile"
    assert service["tmpfs"] == ["/tmp:exec" if runs_java else "/tmp"], "Java loads libraries from there"
    volumes = [volume.split(":") for volume in service.get("volumes", [])]
    assert {target for _, target in volumes} <= {"/var/lib/delayline"}
    assert {source for source, _ in volumes} <= set(DOCUMENT["volumes"])


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_is_built_from_the_dockerfile_and_waits_for_the_broker(name: str) -> None:
    service = OURS[name]
    image, _, _ = service["image"].partition(":")
    assert TARGETS[service["build"]["target"]] == image
    assert service["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_nothing_is_published_but_to_this_machine() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", OURS)
def test_a_command_is_one_and_its_variables_are_settings(name: str, tmp_path: Path) -> None:
    assert parse(OURS[name]["command"])
    settings = load_settings(None, {}, OURS[name]["environment"], tmp_path)
    assert settings.internal.secret.get_secret_value() == SECRET


@pytest.mark.parametrize("name", [name for name, one in OURS.items() if is_serving(one)])
def test_health_is_asked_where_the_process_answers(name: str, tmp_path: Path) -> None:
    settings = load_settings(None, {}, OURS[name]["environment"], tmp_path)
    proxy = settings.proxy.kafka
    ports = {"api": settings.api.port, "worker": settings.worker.port, "proxy kafka": proxy.metrics_port}
    port = ports[parse(OURS[name]["command"])]
    assert f"http://127.0.0.1:{port}/readyz" in " ".join(OURS[name]["healthcheck"]["test"])


def test_workers_are_distinguished_and_keep_what_is_their_own() -> None:
    workers = {name: one for name, one in OURS.items() if one["command"] == ["worker"]}
    assert len(workers) >= 2
    for name, one in workers.items():
        assert one["environment"]["DELAYLINE_INTERNAL__ADVERTISED_HOST"] == name
        assert one["volumes"] == [f"{name}:/var/lib/delayline"]


def test_every_container_of_the_job_has_the_name_by_which_it_knows_that_the_one_before_is_gone() -> None:
    assert OURS["reconcile"]["hostname"] == "reconcile"


def test_the_ports_of_the_proxy_are_published_as_advertised() -> None:
    proxy = OURS["proxy"]
    settings = load_settings(None, {}, proxy["environment"], Path("/")).proxy.kafka
    ports = f"{settings.port}-{settings.port + settings.nodes_max}"
    assert proxy["ports"] == [f"{settings.advertised_host}:{ports}:{ports}"]
    assert int(SERVICES["kafka"]["environment"]["KAFKA_NODE_ID"]) == settings.node_id_base
