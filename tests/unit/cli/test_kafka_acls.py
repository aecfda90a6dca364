"""The ACLs of these settings, and how they are printed: without a broker."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.acl_output import command_lines
from cli.kafka_acls import check_principal, default_principal, needs, targets
from cli.kafka_rights import RIGHTS, ROLES
from cli.main import app
from delayline.config import Settings
from delayline.errors import ConfigError
from mq.kafka.admin.acl import LITERAL, PREFIXED, Acl, Pattern, without_implied

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "delayline"}


def settings(*topics: str, properties: dict[str, str] | None = None, **mq: Any) -> Settings:
    brokers = {"kind": "kafka", "bootstrap_servers": "k1:9092", "properties": properties or {}, **mq}
    return Settings.model_validate({"namespace": "ns", "mq": brokers, "delay": {"topics": topics}})


def ran(monkeypatch: pytest.MonkeyPatch, *options: str, **environ: str) -> Any:
    variables = {
        "DELAYLINE_MQ__KIND": "kafka",
        "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "k1:9092",
        "DELAYLINE_NAMESPACE": "ns",
        "DELAYLINE_DELAY__TOPICS": "orders",
        **environ,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(app, ["kafka", "acls", *options])


# --- which


@pytest.mark.parametrize("role", ROLES)
def test_no_role_is_given_twice_what_it_needs_once(role: str) -> None:
    acls = [need.acl for need in needs(settings("orders", "mail-*"), [role], None, ["app-*"])]
    assert without_implied(acls) == acls
    assert len(acls) == sum((role in right.roles) * (1 + ("delay-enabled" in right.resource)) for right in RIGHTS)


def test_the_names_are_those_of_the_namespace_and_of_no_other_one() -> None:
    found = {need.acl.pattern for need in needs(settings("orders"), ROLES, None, ["app-1", "web-*"])}
    assert found == {
        Pattern("topic", PREFIXED, "ns."),
        Pattern("topic", LITERAL, "orders"),
        Pattern("group", LITERAL, "ns-worker"),
        Pattern("group", LITERAL, "ns-reconcile"),
        Pattern("transactional-id", PREFIXED, "ns-"),
        Pattern("transactional-id", LITERAL, "app-1"),
        Pattern("transactional-id", PREFIXED, "web-"),
        Pattern("cluster", LITERAL, "kafka-cluster"),
    }


def test_no_topic_need_be_made_where_the_settings_make_none() -> None:
    operations = [need.acl.operation for need in needs(settings("orders", topics_create=False), ROLES, None, ["*"])]
    assert "Create" not in operations


def test_without_a_broker_a_pattern_is_a_name_or_a_beginning() -> None:
    assert targets(settings("orders", "mail-*", "sms**"), None) == [
        Pattern("topic", LITERAL, "orders"),
        Pattern("topic", PREFIXED, "mail-"),
        Pattern("topic", PREFIXED, "sms"),
    ]


def test_a_name_that_takes_no_delays_needs_nothing() -> None:
    assert targets(settings("ns.audit", "__consumer_offsets", "o" * 249), None) == []


@pytest.mark.parametrize("pattern", ["*", "?", "orders-?", "*-orders", "a*b*", "_*", "__*", "__consumer*"])
def test_another_pattern_is_refused_with_what_to_do(pattern: str) -> None:
    with pytest.raises(ConfigError, match=f"'{re.escape(pattern)}'.*--existing"):
        targets(settings(pattern), None)


def test_topics_that_are_known_are_named() -> None:
    there = ["orders", "orders-7", "mail", "ns.buffer.orders", "__consumer_offsets"]
    assert targets(settings("*r*s*", "_*"), there) == [Pattern("topic", LITERAL, name) for name in there[:2]]


@pytest.mark.parametrize("name", ["a*b*", "**", ""])
def test_ids_of_clients_are_names_or_beginnings(name: str) -> None:
    with pytest.raises(ConfigError, match="--transactional-id"):
        needs(settings("orders"), ["proxy"], None, [name])


# --- whose


@pytest.mark.parametrize(
    ("changes", "principal"),
    [
        ({}, "User:delayline"),
        ({"sasl.mechanism": "PLAIN"}, "User:delayline"),
        ({"sasl.mechanism": "OAUTHBEARER"}, None),
        ({"security.protocol": "SSL"}, None),
        ({"sasl.username": ""}, None),
    ],
)
def test_the_principal_is_known_where_a_name_logs_in(changes: dict[str, str], principal: str | None) -> None:
    assert default_principal(settings(properties={**LOGIN, **changes})) == principal


@pytest.mark.parametrize("principal", ["delayline", "User:", ":x", " User:x", "User:x\n"])
def test_what_is_no_principal_is_refused(principal: str) -> None:
    with pytest.raises(ConfigError, match="--principal"):
        check_principal(principal)


# --- how


def test_a_command_has_all_resources_with_which_the_same_is_allowed() -> None:
    acls = [need.acl for need in needs(settings("orders", "bills", "mail-*"), ["worker", "api"], None, ["*"])]
    lines = [shlex.join(words) for words in command_lines(acls, ["User:a"], "k1:9092", None)]
    head = "kafka-acls.sh --bootstrap-server k1:9092 --add --allow-principal User:a --operation"
    ours = "Read --operation Write --operation Create --operation AlterConfigs --operation Alter --operation Delete"
    yours = "DescribeConfigs --operation Write --operation Read"
    assert lines == [
        f"{head} {ours} --topic ns. --resource-pattern-type prefixed",
        f"{head} {yours} --topic orders --topic bills --resource-pattern-type literal",
        f"{head} {yours} --topic mail- --resource-pattern-type prefixed",
        f"{head} Read --group ns-worker --resource-pattern-type literal",
        f"{head} Describe --group ns-reconcile --resource-pattern-type literal",
        f"{head} Write --transactional-id ns- --resource-pattern-type prefixed",
        f"{head} Describe --transactional-id '*' --resource-pattern-type literal",
        f"{head} Alter --cluster",
    ]


def test_a_command_that_is_pasted_has_the_words_that_were_meant(tmp_path: Path) -> None:
    """Whatever a shell makes of names: two principals, a file with a blank, every topic there is."""
    principals, config = ["User:CN=a b,O='x' $HOME `id`", 'Group:"*"'], tmp_path / "of an admin.properties"
    words = next(iter(command_lines([Acl(Pattern("topic", LITERAL, "*"), "Read")], principals, "k1:1,k2:2", config)))
    shell = f'show() {{ printf "%s\\0" "$@"; }}\n{shlex.join(words).replace("kafka-acls.sh", "show", 1)}'
    pasted = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert pasted.stdout.split("\0")[:-1] == words[1:]
    assert words[1:] == [
        *("--bootstrap-server", "k1:1,k2:2", "--command-config", str(config), "--add"),
        *("--allow-principal", principals[0], "--allow-principal", principals[1]),
        *("--operation", "Read", "--topic", "*", "--resource-pattern-type", "literal"),
    ]


def test_the_table_has_a_row_for_each_acl_with_its_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ran(monkeypatch, "--role", "serve", "--principal", "User:a")
    assert (shown.exit_code, shown.stderr) == (0, "")
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.stdout.splitlines()]
    assert rows[:2] == [["for User:a:"], ["resource", "pattern", "name", "operation", "roles", "for"]]
    assert ["topic", "prefixed", "ns.", "Write", "worker api proxy"] in [row[:5] for row in rows]
    assert ["group", "literal", "ns-worker", "Describe", "api proxy"] in [row[:5] for row in rows]
    assert not [row for row in rows if "reconcile" in row[4:5]]


def test_programs_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = json.dumps({**LOGIN, "sasl.password": "x"})
    options = ["--role", "reconcile", "--format", "json"]
    shown = json.loads(ran(monkeypatch, *options, DELAYLINE_MQ__PROPERTIES=properties).stdout)
    assert (shown["principals"], shown["roles"]) == (["User:delayline"], ["reconcile"])
    assert {(one["resource"], one["operation"]) for one in shown["acls"]} == {
        ("topic", "Read"),
        ("topic", "DescribeConfigs"),
        ("group", "Describe"),
        ("group", "Read"),
    }
    assert all(one["roles"] == ["reconcile"] and one["why"] for one in shown["acls"])


def test_without_topics_a_note_is_beside_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ran(monkeypatch, "--principal", "User:a", DELAYLINE_DELAY__TOPICS="")
    assert shown.exit_code == 0
    assert "no topic takes delays" in shown.stderr


def test_the_packages_of_kafka_are_not_needed() -> None:
    without = "import sys; sys.modules['confluent_kafka'] = None; from cli.main import main; main()"
    command = [sys.executable, "-c", without, "kafka", "acls", "--principal", "User:a"]
    environ = {**os.environ, "DELAYLINE_MQ__KIND": "kafka", "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "k1:9092"}
    assert "delayline-worker" in subprocess.run(command, env=environ, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("options", "kind", "wrong"),
    [
        ([], "kafka", "--principal is needed"),
        (["--principal", "a"], "kafka", "'a' is not TYPE:NAME"),
        (["--principal", "User:a"], "rocketmq", "is for kafka, not rocketmq"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    monkeypatch: pytest.MonkeyPatch, options: list[str], kind: str, wrong: str
) -> None:
    refused = ran(monkeypatch, *options, DELAYLINE_MQ__KIND=kind)
    assert refused.exit_code == 1
    assert wrong in str(refused.exception)
