"""`delayline doctor` and `delayline topics plan` on a real broker."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.asking import Ran, answer_of, run, run_in
from tests.acceptance.on_kafka import PARTITIONS, settings_of
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt


def findings(ran: Ran) -> dict[str, dict[str, Any]]:
    """By check; the last of several."""
    return {found["check"]: found for found in json.loads(ran.out)["findings"]}


def alter(kafka: "KafkaAt", topic: str, name: str, value: str) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result()


def whats(plan: dict[str, Any]) -> dict[str, str]:
    return {change["topic"]: change["what"] for change in plan["changes"]}


@pytest.mark.thorough
def test_a_plan_is_shown_and_then_carried_out_and_then_there_is_nothing_to_do(kafka: "KafkaAt", topic: str) -> None:
    settings = {**settings_of(kafka), "delay__topics": topic, "mq__topics_create": "false"}
    space = settings["namespace"]
    buffer, own = f"{space}.buffer.{topic}", [f"{space}.{name}" for name in ("audit", "dead", "cursor")]
    shown = answer_of(run("topics", "plan", "--json", **settings))
    again = run("topics", "plan", **settings)
    assert whats(shown) == dict.fromkeys((*own, buffer), "make")
    made = next(change for change in shown["changes"] if change["topic"] == buffer)
    assert made["partitions"] == {"before": 0, "after": PARTITIONS}
    assert made["settings"]["message.timestamp.type"] == {"before": None, "after": "LogAppendTime"}
    assert "4 topics to be made or changed: --apply does it" in again.err
    applied = run("topics", "plan", "--apply", **settings)
    assert (applied.code, applied.err) == (0, "4 topics made or changed\n")
    assert set(whats(answer_of(run("topics", "plan", "--json", **settings))).values()) == {"ok"}

    alter(kafka, buffer, "retention.ms", "1000")
    drifted = run("topics", "plan", **settings)
    assert "retention.ms=1000->-1" in drifted.out
    assert answer_of(run("topics", "plan", "--apply", "--json", **settings))["applied"] is True
    assert set(whats(answer_of(run("topics", "plan", "--json", **settings))).values()) == {"ok"}


def test_the_doctor_lists_what_is_right_and_what_is_wrong(kafka: "KafkaAt", topic: str, tmp_path: Path) -> None:
    settings = {**settings_of(kafka), "delay__topics": f"{topic},typo", "mq__topics_create": "false"}
    settings |= {"api__port": str(free_port()), "store__disk_free_min": "1MiB"}
    space = settings["namespace"]
    before = run_in(tmp_path, "doctor", "--json", **settings)
    assert before.code == 1, before
    assert findings(before)[f"{space}.buffer.{topic}"]["advice"].startswith("`delayline topics plan`")
    run("topics", "plan", "--apply", **settings)
    found = findings(run_in(tmp_path, "doctor", "--json", **settings))
    assert found["brokers"] == {"level": "ok", "check": "brokers", "detail": "transaction.version 2", "advice": ""}
    assert found["delay.topics"]["level"] == "ok"
    assert found["protocol"]["level"] == "ok"
    assert found["clock"]["level"] == "ok"
    assert " ms against broker 1" in found["clock"]["detail"]
    assert found[f"{space}.buffer.{topic}"]["detail"] == f"{PARTITIONS} partitions"

    alter(kafka, f"{space}.buffer.{topic}", "cleanup.policy", "compact")
    well = run_in(tmp_path, "doctor", **{**settings, "delay__topics": topic})
    assert (well.code, well.err) == (0, "")
    assert f"warn  {space}.buffer.{topic}: cleanup.policy is compact, not delete\n" in well.out
    assert "one replica" in well.out
