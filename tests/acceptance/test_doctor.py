"""`delayline doctor` and `delayline topics plan` on a machine of its own, with the embedded queue."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from cli.findings import Finding
from cli.kafka_doctor import clock, markers, named, own, rights, target, transactions
from cli.machine_doctor import disk
from delayline.config import Settings, load_settings
from mq.clock_offset import ClockOffset
from mq.contract import TopicInfo
from mq.kafka.admin.buffers import Change
from mq.kafka.admin.cluster import Described
from tests.acceptance.asking import Ran, run_in
from tests.fault.server import Server
from tests.ports import free_port

MIB = 1 << 20


def levels(ran: Ran) -> dict[str, str]:
    """By check, of what `--json` printed."""
    return {found["check"]: found["level"] for found in json.loads(ran.out)["findings"]}


def doctor(cwd: Path, *options: str, **settings: str) -> Ran:
    return run_in(cwd, "doctor", *options, api__port=str(free_port()), store__disk_free_min="1MiB", **settings)


def test_a_fresh_machine_is_well(tmp_path: Path) -> None:
    ran = doctor(tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert {line.split()[0] for line in ran.out.splitlines()} == {"ok"}
    assert not (tmp_path / "data").exists()


def test_beside_a_server_the_doctor_sees_it(shared: Server, tmp_path: Path) -> None:
    settings = {"data_dir": str(shared.data_dir), "api__port": str(shared.port), "store__disk_free_min": "1MiB"}
    ran = run_in(tmp_path, "doctor", **settings)
    assert ran.code == 0, ran
    assert f"listens on 127.0.0.1:{shared.port}\n" in ran.out
    assert f"a process is at work in {shared.data_dir}/index" in ran.out
    assert f"a process is at work in {shared.data_dir}/queue" in ran.out


def test_settings_that_cannot_be_are_a_finding(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--json", delay__horizon_max="soon")
    assert ran.code == 1
    (found,) = json.loads(ran.out)["findings"]
    assert (found["level"], found["check"]) == ("fail", "settings")
    assert "delay.horizon_max" in found["detail"]


def test_a_queue_of_another_namespace_and_a_file_for_a_folder_are_failures(tmp_path: Path) -> None:
    queue = tmp_path / "data" / "queue"
    queue.mkdir(parents=True)
    (queue / "queue.json").write_text('{"embedded_queue": 1, "namespace": "theirs"}')
    (tmp_path / "file").write_text("")
    ran = doctor(tmp_path, "--json")
    assert (ran.code, levels(ran)["queue"]) == (1, "fail")
    assert levels(doctor(tmp_path, "--json", data_dir="file"))["data_dir"] == "fail"


def test_a_port_that_another_program_has_is_worth_a_word(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ran = run_in(tmp_path, "doctor", api__port=str(other.getsockname()[1]), store__disk_free_min="1MiB")
    assert ran.code == 0
    assert "warn  api.port: " in ran.out
    assert "-> a server needs it: choose another api.port" in ran.out


def test_an_api_that_others_reach_is_worth_a_word(tmp_path: Path) -> None:
    ran = doctor(tmp_path, api__host="0.0.0.0", api__auth="none-on-any-address")
    assert ran.code == 0
    assert "warn  api.auth: none: everyone who can reach 0.0.0.0 may do everything\n" in ran.out


def test_where_keys_are_needed_a_secret_lets_processes_share_sessions(tmp_path: Path) -> None:
    by_keys = {
        "api__host": "0.0.0.0",
        "api__auth": "keys",
        "access__rules": "rules.toml",
        "access__keys": "keys.json",
    }
    alone = doctor(tmp_path, **by_keys)
    assert "ok    api.auth: keys; each process knows its own sessions alone\n" in alone.out
    assert "give them the same access.session_secret" in alone.out
    shared = doctor(tmp_path, **by_keys, access__session_secret="sixteen letters!")
    assert "ok    api.auth: keys: every request needs one, or a session\n" in shared.out


def test_certificates_may_be_all_that_clients_show(tmp_path: Path) -> None:
    by_certificates = {
        "api__auth": "keys",
        "api__certfile": "server.crt",
        "api__client_certificates": "asked",
        "api__client_cafile": "ca.crt",
        "access__rules": "rules.toml",
    }
    alone = doctor(tmp_path, **by_certificates)
    assert "ok    api.auth: certificates: every request needs one\n" in alone.out
    beside = doctor(tmp_path, **by_certificates, access__keys="keys.json", access__session_secret="sixteen letters!")
    assert "ok    api.auth: keys: every request needs one, or a session, or a certificate\n" in beside.out


@pytest.mark.thorough
def test_a_queue_that_does_not_answer_is_a_failure_with_advice(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    ran = doctor(tmp_path, mq__kind="kafka", mq__bootstrap_servers=nobody)
    assert (ran.code, ran.err) == (1, "")
    assert f"fail  queue: Kafka at {nobody} does not answer" in ran.out
    assert "-> is mq.bootstrap_servers right" in ran.out


def test_the_embedded_queue_needs_no_topics_made(tmp_path: Path) -> None:
    sentence = "nothing is needed: the embedded queue makes what it needs\n"
    assert run_in(tmp_path, "topics", "plan") == (0, sentence, "")
    assert json.loads(run_in(tmp_path, "topics", "plan", "--apply", "--json").out)["changes"] == []
    assert list(tmp_path.iterdir()) == []


# --- how facts are judged


def settings(**given: Any) -> Settings:
    return load_settings(None, given, {}, Path("/"))


@pytest.mark.parametrize(("free", "level"), [(99, "fail"), (100, "warn"), (399, "warn"), (400, "ok")])
def test_disk_is_judged_by_what_is_to_stay_free(free: int, level: str) -> None:
    assert disk(settings(**{"store.disk_free_min": "100MiB"}), free * MIB).level == level


@pytest.mark.parametrize(
    ("features", "level"),
    [({"transaction.version": 2}, "ok"), ({"transaction.version": 1}, "warn"), ({}, "warn"), ("no answer", "warn")],
)
def test_brokers_fence_each_transaction_from_version_2_on(features: Any, level: str) -> None:
    assert transactions(features).level == level


@pytest.mark.parametrize(
    ("least", "most", "level"),
    [(-10, 10, "ok"), (1001, 1003, "warn"), (5001, 5003, "fail"), (-5003, -5001, "fail"), (4990, 5010, "warn")],
)
def test_a_clock_is_judged_by_what_is_beyond_doubt(least: int, most: int, level: str) -> None:
    assert clock(ClockOffset("1", least, most), 5000).level == level


def test_topics_that_are_named_must_be_there() -> None:
    assert [found.level for found in named(["a", "b-*"], ["a", "b-1"], ["a", "b-1"])] == ["ok"]
    assert [found.level for found in named(["a", "c"], ["a"], ["a"])] == ["fail", "ok"]
    assert [found.level for found in named(["b-*"], ["a"], [])] == ["warn"]
    assert [found.level for found in named([], ["a"], [])] == ["warn"]


@pytest.mark.parametrize(
    ("change", "create", "level"),
    [
        (Change("t", 4, 4, 1, {}), True, "ok"),
        (Change("t", 0, 4, 1, {}), True, "ok"),
        (Change("t", 0, 4, 1, {}), False, "fail"),
        (Change("t", 2, 4, 1, {}), True, "warn"),
        (Change("t", 4, 4, 1, {"retention.ms": ("1", "-1")}), True, "warn"),
    ],
)
def test_a_topic_of_ours_is_judged_by_what_is_still_to_be_done(change: Change, create: bool, level: str) -> None:
    assert own(change, topics_create=create).level == level


def described(leaders: tuple[int, ...] = (1, 1), replicas: int = 3, operations: Any = None) -> Described:
    return Described(TopicInfo("t", ("0", "1"), b""), leaders, (3, 3), replicas, True, operations)


def test_a_topic_without_leader_or_rights_is_a_failure_and_one_replica_a_warning() -> None:
    def found(topic: Described) -> list[Finding]:
        return list(target("t", topic))

    assert found(described()) == []
    assert [one.level for one in found(described(leaders=(1, -1)))] == ["fail"]
    assert [one.level for one in found(described(replicas=1))] == ["warn"]
    assert [
        one.detail for one in rights("t", described(operations=frozenset({"READ"})), frozenset({"READ", "WRITE"}))
    ] == ["not allowed: WRITE"]


@pytest.mark.parametrize(
    ("operations", "levels"), [(None, []), (frozenset({"ALTER"}), []), (frozenset({"DESCRIBE"}), ["warn"])]
)
def test_a_process_that_may_not_write_markers_is_warned_of_what_hangs_then(
    operations: Any, levels: list[str]
) -> None:
    assert [found.level for found in markers(operations)] == levels
