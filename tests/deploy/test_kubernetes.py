"""The manifests in deploy/kubernetes, as far as that can be looked at without a cluster."""

import json
import re
import shutil
import subprocess
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.queues import open_rocketmq
from delayline import __version__
from delayline.clock import SystemClock
from delayline.config import Settings, load_settings
from delayline.config.layers import SYSTEM_CONFIG
from proxy.kafka.access import read_access
from reconcile.directory.lock import Holder, is_gone
from tests.deploy.commands import parse
from tests.deploy.exit_codes import AGAIN, CLEAN, exit_codes
from tests.deploy.manifests import FOLDER, Container, containers, kustomization, resources, selected
from tests.deploy.test_image import PINNED, ROOT, TARGETS

CONTAINERS = {one.name: one for one in containers()}
SERVING = [one for one in CONTAINERS.values() if one.resource["kind"] != "CronJob"]
SECRETS = Path("/run/secrets/delayline")


def named(one: Container | dict[str, Any]) -> str:
    return one.name if isinstance(one, Container) else f"{one['kind']}-{one['metadata']['name']}"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in resources() if one["kind"] == kind]


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """What stands in the secret, by key; as files below tmp_path."""
    found = dict.fromkeys(re.findall(rf'"{SECRETS}/([\w.-]+)"', (FOLDER / "delayline.toml").read_text()), "x" * 32)
    for key, value in found.items():
        (tmp_path / key).write_text(value)
    return found


def settings_of(one: Container, folder: Path) -> Settings:
    """What the container would run with."""
    config = folder / "delayline.toml"
    config.write_text((FOLDER / "delayline.toml").read_text().replace(str(SECRETS), str(folder)))
    return load_settings(config, {}, one.environment, folder)


# --- the files


def test_every_file_is_applied() -> None:
    files = {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml", "delayline.toml"}
    assert sorted(kustomization()["resources"]) == sorted(files)
    assert kustomization()["configMapGenerator"] == [{"name": "delayline-config", "files": ["delayline.toml"]}]


def test_kubectl_reads_the_files_as_these_tests_do() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    made = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    theirs = {named(one) for one in yaml.safe_load_all(made.stdout) if one["kind"] != "ConfigMap"}
    assert theirs == {named(one) for one in resources()}


@pytest.mark.parametrize("resource", resources(), ids=named)
def test_a_resource_has_the_fields_of_its_kind_and_no_others(resource: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="a package of 110 MB, which is no requirement")
    validate.validate(json.loads(json.dumps(resource)), "1.37", strict=True)


def test_no_secret_stands_in_the_files() -> None:
    assert of_kind("Secret") == []
    config = tomllib.loads((FOLDER / "delayline.toml").read_text())
    assert set(config["internal"]["secret"]) == set(config["mq"]["properties"]["sasl.password"]) == {"file"}


# --- pods


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=named)
def test_an_image_is_pinned_and_made_by_the_dockerfile(one: Container) -> None:
    name, _, tag = one.made["image"].partition(":")
    assert PINNED.fullmatch(one.made["image"])
    assert name in TARGETS.values()
    assert tag == __version__
    assert {"name": name, "newTag": __version__} in kustomization()["images"]


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=named)
def test_a_command_is_one_and_its_settings_are_accepted(one: Container, tmp_path: Path, secrets: Any) -> None:
    command = parse(one.made["args"])
    settings = settings_of(one, tmp_path)
    assert settings.internal.secret.get_secret_value() == secrets["internal-secret"]
    assert settings.mq.client_properties()["sasl.password"] == secrets["sasl-password"]
    assert command.replace("proxy kafka", "proxy").replace(" run", "") == one.name


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=named)
def test_files_lie_where_the_program_and_the_settings_look_for_them(one: Container) -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in one.made["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in one.pod["spec"]["volumes"]}
    claimed = {claim["metadata"]["name"] for claim in one.resource["spec"].get("volumeClaimTemplates", [])}
    assert set(mounts) == set(volumes) | claimed
    assert mounts["config"] == str(SYSTEM_CONFIG.parent)
    assert volumes["config"]["configMap"]["name"] == kustomization()["configMapGenerator"][0]["name"]
    assert mounts["secrets"] == str(SECRETS)
    assert volumes["secrets"]["secret"]["secretName"] == "delayline-secrets"
    assert mounts["tmp"] == "/tmp"
    assert mounts.get("data") in (None, "/var/lib/delayline")


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=named)
def test_a_pod_may_do_nothing_that_it_need_not(one: Container) -> None:
    spec, context = one.pod["spec"], one.made["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert one.made["resources"]["limits"]["memory"] == one.made["resources"]["requests"]["memory"]


@pytest.mark.parametrize("one", CONTAINERS.values(), ids=named)
def test_variables_that_kubernetes_makes_of_services_are_not_taken_for_settings(one: Container) -> None:
    assert one.pod["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("one", SERVING, ids=named)
def test_health_is_asked_where_the_process_answers(one: Container, tmp_path: Path, secrets: Any) -> None:
    settings = settings_of(one, tmp_path)
    answers: Any = {"api": settings.api, "worker": settings.worker, "proxy": settings.worker}[one.name]
    assert answers.host == "0.0.0.0", "probes come to the pod's address"
    port = settings.proxy.kafka.metrics_port if one.name == "proxy" else answers.port
    assert one.ports["http"] == port
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert one.made[probe]["httpGet"] == {"path": path, "port": "http"}


def test_every_worker_is_asked_at_an_address_of_its_own(tmp_path: Path, secrets: Any) -> None:
    worker = CONTAINERS["worker"]
    settings = settings_of(worker, tmp_path)
    assert settings.internal.reached_at == "10.0.0.7"
    assert worker.ports["internal"] == settings.internal.port


def test_kafka_clients_find_every_node_behind_the_advertised_name(tmp_path: Path, secrets: Any) -> None:
    proxy = CONTAINERS["proxy"]
    found = settings_of(proxy, tmp_path).proxy.kafka
    (service,) = (one for one in of_kind("Service") if one["metadata"]["name"] == "delayline-proxy")
    assert found.advertised_host == f"delayline-proxy.{kustomization()['namespace']}.svc"
    assert [port["port"] for port in service["spec"]["ports"]] == list(
        range(found.port, found.port + 1 + found.nodes_max)
    )
    assert {port["port"]: proxy.ports[port["targetPort"]] for port in service["spec"]["ports"]} == {
        port["port"]: port["port"] for port in service["spec"]["ports"]
    }


def test_the_proxy_takes_the_way_to_the_brokers(tmp_path: Path, secrets: Any) -> None:
    access = read_access(settings_of(CONTAINERS["proxy"], tmp_path).mq.client_properties())
    assert access.own.tls is not None
    assert access.own.credentials is not None
    assert (access.own.credentials.username, access.own.credentials.password) == (
        "delayline",
        secrets["sasl-password"],
    )


def test_librdkafka_knows_every_property(tmp_path: Path, secrets: Any) -> None:
    from confluent_kafka import Consumer

    properties = settings_of(CONTAINERS["api"], tmp_path).mq.client_properties()
    Consumer({**properties, "bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}).close()


# --- on RocketMQ


def on_rocketmq() -> str:
    """The settings, changed as docs/deploy.md has it."""
    section = (ROOT / "docs" / "deploy.md").read_text().split("### Kubernetes on RocketMQ")[1].split("\n## ")[0]
    (block,) = re.findall(r"^   ```toml\n(.*?)^   ```", section, re.MULTILINE | re.DOTALL)
    tables = re.split(r"^(?=\[)", (FOLDER / "delayline.toml").read_text(), flags=re.MULTILINE)
    kept = [table for table in tables if not table.startswith(("[mq]", "[mq.properties]", "[proxy.kafka]"))]
    assert len(kept) == len(tables) - 3
    return "".join([*kept, textwrap.dedent(block)])


@pytest.mark.parametrize("one", [one for one in CONTAINERS.values() if one.name != "proxy"], ids=named)
def test_with_what_the_page_changes_a_container_runs_on_rocketmq(one: Container, tmp_path: Path) -> None:
    for key in ("internal-secret", "secret-key"):
        (tmp_path / key).write_text("x" * 32)
    config = tmp_path / "delayline.toml"
    config.write_text(on_rocketmq().replace(str(SECRETS), str(tmp_path)))
    settings = load_settings(config, {}, one.environment, tmp_path)
    assert (settings.mq.kind, settings.proxy.kafka.port) == ("rocketmq", 0)
    open_rocketmq(settings, SystemClock()).close()


def test_what_the_page_removes_for_rocketmq_is_about_the_proxy_alone() -> None:
    assert "proxy.yaml" in kustomization()["resources"]
    (policy,) = (one for one in of_kind("NetworkPolicy") if one["metadata"]["name"] == "proxy")
    assert {one.name for one in selected(policy["spec"]["podSelector"]["matchLabels"])} == {"proxy"}


# --- the job


def test_a_run_is_tried_again_only_where_that_may_change_something() -> None:
    (cron,) = of_kind("CronJob")
    job = cron["spec"]["jobTemplate"]["spec"]
    (drained, answered) = job["podFailurePolicy"]["rules"]
    assert drained == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    assert answered["action"] == "FailJob"
    assert answered["onExitCodes"] == {
        "containerName": CONTAINERS["reconcile"].name,
        "operator": "In",
        "values": sorted(exit_codes() - {CLEAN, AGAIN}),
    }
    assert job["backoffLimit"] > 0
    assert CONTAINERS["reconcile"].pod["spec"]["restartPolicy"] == "Never", "the policy asks for it"


def test_one_run_at_a_time_writes_into_a_ledger_that_outlives_it() -> None:
    (cron,), (claim,) = of_kind("CronJob"), of_kind("PersistentVolumeClaim")
    one = CONTAINERS["reconcile"]
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    (mount,) = (found for found in one.made["volumeMounts"] if found["name"] == "ledger")
    assert one.made["args"][one.made["args"].index("--output") + 1].startswith(f"{mount['mountPath']}/")
    (volume,) = (found for found in one.pod["spec"]["volumes"] if found["name"] == "ledger")
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_a_pod_takes_over_what_a_killed_one_has_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of its own host a run knows who is gone, and a pod has its own name for one where none is given."""
    spec = CONTAINERS["reconcile"].pod["spec"]
    killed = Holder("delayline-reconcile", pid=1, born=2**40, since_ms=0)
    monkeypatch.setattr("socket.gethostname", lambda: spec.get("hostname", "delayline-reconcile-29017-x7k2p"))
    assert is_gone(killed)


# --- what holds pods together


@pytest.mark.parametrize("resource", [*of_kind("Deployment"), *of_kind("StatefulSet")], ids=named)
def test_a_pod_belongs_to_what_makes_it(resource: dict[str, Any]) -> None:
    (one,) = selected(resource["spec"]["selector"]["matchLabels"])
    assert one.resource == resource
    assert resource["spec"]["replicas"] >= 2


@pytest.mark.parametrize("resource", [*of_kind("Service"), *of_kind("PodDisruptionBudget")], ids=named)
def test_a_service_and_a_budget_are_about_one_kind_of_pods(resource: dict[str, Any]) -> None:
    selector = resource["spec"]["selector"]
    (one,) = selected(selector.get("matchLabels", selector))
    assert resource["metadata"]["name"] == f"delayline-{one.name}"


@pytest.mark.parametrize("policy", of_kind("NetworkPolicy"), ids=named)
def test_a_policy_opens_ports_that_its_pods_have(policy: dict[str, Any]) -> None:
    pods = selected(policy["spec"]["podSelector"].get("matchLabels", {}))
    assert pods
    for port in (port for rule in policy["spec"].get("ingress", []) for port in rule["ports"]):
        have = [set(one.ports) | set(one.ports.values()) for one in pods if one in SERVING]
        assert all({port["port"], port.get("endPort", port["port"])} <= ports for ports in have), port


def test_nobody_gets_in_whom_no_policy_lets_in() -> None:
    (closed,) = (one for one in of_kind("NetworkPolicy") if "ingress" not in one["spec"])
    assert closed["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    opened = [one["spec"] for one in of_kind("NetworkPolicy") if "ingress" in one["spec"]]
    to_all = [one for one in opened if any({"namespaceSelector": {}} in rule["from"] for rule in one["ingress"])]
    assert [one["podSelector"]["matchLabels"] for one in to_all] == [{"app.kubernetes.io/component": "proxy"}]
