"""Settings: where they come from, what they may be, and what is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from delayline.config import Settings, describe, load_settings
from delayline.config import layers as setting_layers
from delayline.errors import ConfigError
from delayline.schedule.rules import DEFAULT_RULES, RULES_BYTES_MAX, Rules


@pytest.fixture(autouse=True)
def _no_system_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_layers, "SYSTEM_CONFIG", tmp_path / "etc" / "delayline.toml")


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Loads settings from a TOML text, variables without their prefix, and flags by key."""

    def load_them(toml: str | None = None, env: Mapping[str, str] | None = None, **flags: object) -> Settings:
        if toml is not None:
            (tmp_path / "delayline.toml").write_text(toml)
        environ = {f"DELAYLINE_{name}": value for name, value in (env or {}).items()}
        return load_settings(None, {key.replace("__", "."): value for key, value in flags.items()}, environ, tmp_path)

    return load_them


def sentence_of(load: Any, toml: str | None = None, env: Mapping[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(toml, env, **flags)
    return str(caught.value)


def rows(settings: Settings) -> dict[str, tuple[str, str]]:
    return {key: (value, source) for key, value, source in describe(settings)}


# --- where a setting comes from


def test_without_anything_every_setting_is_its_default(load: Any) -> None:
    assert {source for _, source in rows(load()).values()} == {"default"}


def test_durations_and_sizes_are_milliseconds_and_bytes(load: Any) -> None:
    settings = load()
    assert (settings.store.near_due, settings.store.near_bytes_max) == (5000, 64 << 20)
    assert (settings.history.retention, settings.dispatch.batch_bytes_max) == (86_400_000, 4 << 20)


@pytest.mark.parametrize(
    ("toml", "env", "flags", "port"),
    [
        ("[api]\nport = 1", {}, {}, 1),
        ("[api]\nport = 1", {"API__PORT": "2"}, {}, 2),
        ("[api]\nport = 1", {"API__PORT": "2"}, {"api__port": 3}, 3),
        ("[api]\nport = 1", {"API__PORT": "2"}, {"api__port": None}, 2),
        (None, {}, {}, 8080),
    ],
)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    load: Any, toml: str | None, env: dict[str, str], flags: dict[str, object], port: int
) -> None:
    assert load(toml, env, **flags).api.port == port


def test_a_layer_replaces_single_settings_and_leaves_their_neighbours(load: Any) -> None:
    api = load("[api]\nport = 1\nbatch_messages_max = 7", {"API__PORT": "2"}).api
    assert (api.port, api.batch_messages_max) == (2, 7)


def test_every_setting_shows_where_it_was_written(load: Any, tmp_path: Path) -> None:
    found = rows(load("namespace = 'eu'\n[api]\nport = 1", {"API__PORT": "2"}, data_dir="/srv"))
    assert found["namespace"] == ("eu", str(tmp_path / "delayline.toml"))
    assert found["api.port"] == ("2", "DELAYLINE_API__PORT")
    assert found["data_dir"] == ("/srv", "the command line")
    assert found["api.host"] == ("127.0.0.1", "default")


def test_a_named_file_wins_over_the_variable_over_the_working_directory(tmp_path: Path) -> None:
    for name in ("flag", "variable", "delayline"):
        (tmp_path / f"{name}.toml").write_text(f"namespace = '{name}'")
    environ = {"DELAYLINE_CONFIG": "variable.toml"}
    assert load_settings(Path("flag.toml"), {}, environ, tmp_path).namespace == "flag"
    assert load_settings(None, {}, environ, tmp_path).namespace == "variable"
    assert load_settings(None, {}, {}, tmp_path).namespace == "delayline"


def test_the_systems_file_is_the_last_that_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "delayline.toml").write_text("namespace = 'system'")
    assert load_settings(None, {}, {}, tmp_path).namespace == "system"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.toml: No such file"):
        load_settings(Path("missing.toml"), {}, {}, tmp_path)


@pytest.mark.parametrize("content", [b"namespace = ", b"\xff", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "delayline.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"delayline\.toml is not TOML"):
        load_settings(None, {}, {}, tmp_path)


# --- names that are no settings


@pytest.mark.parametrize(
    ("toml", "key", "nearest"),
    [
        ("namspace = 'x'", "namspace", "namespace"),
        ("[api]\nprot = 1", "api.prot", "api.port"),
        ("[dispach]\nbatch_records_max = 1", "dispach", "dispatch"),
        ("[proxy.kafka]\nprt = 1", "proxy.kafka.prt", "proxy.kafka.port"),
        ("[[delay.rule]]\ntopics = ['a']\ndelay = '1s'", "delay.rule.0.delay", "delay.rule.0.default_delay"),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest(
    load: Any, tmp_path: Path, toml: str, key: str, nearest: str
) -> None:
    where = f"(from {tmp_path / 'delayline.toml'})"
    assert sentence_of(load, toml) == f"{key}: there is no such setting {where}; did you mean {nearest}?"


@pytest.mark.parametrize("name", ["x" * 70_000, r"a\nb", r"\u0000"])
def test_a_name_of_any_length_and_letters_leaves_one_short_line(load: Any, name: str) -> None:
    sentence = sentence_of(load, f'["{name}"]\nport = 1')
    assert "there is no such setting" in sentence
    assert len(sentence) < 300
    assert sentence.isprintable()


def test_a_misspelt_variable_is_named_with_the_nearest(load: Any) -> None:
    sentence = sentence_of(load, env={"API_PORT": "1"})
    assert sentence.startswith("DELAYLINE_API_PORT: there is no such setting")
    assert sentence.endswith("did you mean DELAYLINE_API__PORT?")


def test_a_key_that_resembles_nothing_is_named_alone(load: Any) -> None:
    assert sentence_of(load, "zzzzzzzzzz = 1").endswith("delayline.toml).")


def test_a_flag_that_is_no_setting_is_refused(load: Any) -> None:
    assert "api.prot" in sentence_of(load, api__prot=1)


@pytest.mark.parametrize("variable", ["URL", "SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP_ADDR"])
def test_variables_of_the_command_line_and_of_kubernetes_are_no_settings(load: Any, variable: str) -> None:
    assert load(env={variable: "tcp://10.0.0.1:8080"}) == load()


def test_a_port_in_the_variable_of_kubernetes_is_somebody_who_means_the_setting(load: Any) -> None:
    assert sentence_of(load, env={"PORT": "9090"}).endswith("did you mean DELAYLINE_API__PORT?")


def test_an_empty_data_folder_is_not_the_working_directory(load: Any) -> None:
    assert sentence_of(load, env={"DATA_DIR": ""}) == "data_dir: expected a folder, not '' (from DELAYLINE_DATA_DIR)."


def test_variables_of_others_are_not_looked_at(tmp_path: Path) -> None:
    assert load_settings(None, {}, {"PATH": "/bin", "delayline_api__port": "1"}, tmp_path).api.port == 8080


def test_a_section_must_be_a_table(load: Any) -> None:
    assert sentence_of(load, "api = 5").startswith("api: expected a table (from ")


# --- values


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("API__PORT", "70000", "api.port: input should be less than or equal to 65535, not '70000'"),
        ("API__PORT", "", "api.port: input should be a valid integer"),
        ("STORE__NEAR_DUE", "5", "store.near_due: expected a duration"),
        ("STORE__NEAR_DUE", "5m", "store.near_due: expected 0s to 60s, not '5m'"),
        ("STORE__MEMORY_BYTES_MAX", "1MiB", "store.memory_bytes_max: expected 16MiB to 1TiB, not '1MiB'"),
        ("DISPATCH__BATCH_RECORDS_MAX", "0", "dispatch.batch_records_max: input should be greater"),
        ("DISPATCH__TIMESTAMP", "now", "dispatch.timestamp: input should be 'delivery', 'due' or 'accepted'"),
        ("HISTORY__MESSAGES_MAX", "-1", "history.messages_max: input should be greater"),
        ("LOG__LEVEL", "loud", "log.level: input should be 'debug'"),
        ("LOG__FORMAT", "xml", "log.format: input should be 'text' or 'json'"),
        ("NAMESPACE", "", "namespace: expected 1 to 64 of"),
        ("NAMESPACE", "a b", "namespace: expected 1 to 64 of"),
        ("NAMESPACE", "..", "namespace: expected 1 to 64 of"),
        ("NAMESPACE", "__x", "namespace: expected 1 to 64 of"),
        ("NAMESPACE", "x" * 65, "namespace: expected 1 to 64 of"),
        ("DELAY__TOPICS", "orders,a b", "delay.topics.1: expected a topic name"),
        ("DELAY__TOPICS", "orders,", "delay.topics.1: expected a topic name"),
        ("DELAY__TOPICS", "[a-z]", "delay.topics.0: expected a topic name"),
        ("DELAY__ALIASES", "celery", "delay.aliases.0: input should be 'rocketmq'"),
        ("DELAY__LEVELS", "1s  2s", "delay.levels: expected a duration"),
        ("DELAY__HORIZON_MAX", "36501d", "delay.horizon_max: expected 1s to 36500d"),
        ("MQ__KIND", "rabbit", "mq.kind: input should be 'embedded', 'kafka' or 'rocketmq'"),
        ("DELAY__RULE", '[{"topics":["a b"]}]', "delay.rule.0.topics.0: expected a topic name"),
        ("DELAY__RULE", "[{}]", "delay.rule.0.topics: field required"),
    ],
)
def test_a_value_that_cannot_be_is_one_sentence_with_its_origin(
    load: Any, variable: str, value: str, sentence: str
) -> None:
    found = sentence_of(load, env={variable: value})
    assert found.startswith(sentence)
    assert found.endswith(f"(from DELAYLINE_{variable}).")
    assert "\n" not in found


def test_a_long_value_is_shortened_in_the_sentence(load: Any) -> None:
    assert len(sentence_of(load, env={"LOG__LEVEL": "x" * 5000})) < 250


def test_a_level_beyond_the_horizon_is_refused(load: Any) -> None:
    assert "longer than delay.horizon_max" in sentence_of(load, "[delay]\nhorizon_max = '1h'")


def test_levels_too_long_for_a_cursor_are_refused(load: Any) -> None:
    levels = " ".join(f"{10**9 + number}ms" for number in range(64))
    assert f"more than {RULES_BYTES_MAX} bytes" in sentence_of(load, env={"DELAY__LEVELS": levels})


def test_settings_cannot_be_changed(load: Any) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().api.port = 1


# --- rules and topics


def test_the_default_rules_are_those_of_the_vocabulary(load: Any) -> None:
    assert load().rules() == DEFAULT_RULES


def test_the_rules_follow_the_settings(load: Any) -> None:
    delay = "[delay]\nlevels = '5s 1h'\nhorizon_max = '2h'\naliases = ['etf1']"
    rules = load(f"{delay}\n[retry]\nattempts_max = 3").rules()
    assert rules == Rules(levels_ms=(5000, 3_600_000), aliases=("etf1",), retry_attempts_max=3)


RULES = """
[[delay.rule]]
topics = ["mail-urgent"]
[[delay.rule]]
topics = ["mail-*", "digest"]
default_delay = "15m"
[[delay.rule]]
topics = ["*"]
default_delay = "1s"
"""


@pytest.mark.parametrize(
    ("topic", "default_ms"), [("mail-urgent", 0), ("mail-eu", 900_000), ("digest", 900_000), ("orders", 1000)]
)
def test_the_first_rule_that_matches_is_the_only_one(load: Any, topic: str, default_ms: int) -> None:
    assert load(RULES).rules_for(topic) == Rules(default_delay_ms=default_ms)


def test_a_rule_sets_how_fast_and_how_late(load: Any) -> None:
    rule = load("[[delay.rule]]\ntopics = 'sms'\nrate_max = 5\nlate_max = '1h'").rule_for("sms")
    assert (rule.rate_max, rule.late_max, rule.default_delay) == (5, 3_600_000, None)


def test_a_rule_bounds_what_waits_and_how_much_of_it_repeats(load: Any) -> None:
    rules = "[[delay.rule]]\ntopics = 'sms'\nrepeats_max = 0\n[[delay.rule]]\ntopics = 'mail'\npending_max = 5"
    settings = load(f"[delay]\nrepeats_max = 7\n{rules}")
    assert [settings.bounds_for(topic) for topic in ("sms", "mail", "x")] == [(None, 0), (5, 7), (None, 7)]
    assert load("").bounds_for("x") == (None, 10_000)


def test_a_topic_without_a_rule_has_the_rules_of_all(load: Any) -> None:
    settings = load("[[delay.rule]]\ntopics = 'mail'\ndefault_delay = '15m'")
    assert settings.rules_for("orders") == settings.rules() == DEFAULT_RULES


def test_rules_in_the_environment_are_json_and_shown_as_such(load: Any) -> None:
    text = '[{"topics": ["mail-*"], "default_delay": "15m"}, {"topics": ["x"]}]'
    settings = load(env={"DELAY__RULE": text})
    assert settings.rules_for("mail-eu").default_delay_ms == 900_000
    assert ("delay.rule", text, "DELAYLINE_DELAY__RULE") in describe(settings)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("topics = []", "delay.rule.0.topics: value should have at least 1 item"),
        ("default_delay = '1s'", "delay.rule.0.topics: field required"),
        ("topics = ['a b']", "delay.rule.0.topics.0: expected a topic name"),
        ("topics = ['*']\ndefault_delay = '0s'", "delay.rule.0.default_delay: expected 1ms to 36500d, not '0s'"),
        ("topics = ['*']\ndefault_delay = 15", "delay.rule.0.default_delay: expected a duration with its unit"),
        ("topics = ['*']\ndefault_delay = '3651d'", "a default_delay is longer than delay.horizon_max"),
        ("topics = ['*']\npending_max = 0", "delay.rule.0.pending_max: input should be greater"),
        ("topics = ['*']\nrepeats_max = -1", "delay.rule.0.repeats_max: input should be greater"),
        ("topics = ['*']\nrate_max = 0", "delay.rule.0.rate_max: input should be greater"),
        ("topics = ['*']\nlate_max = '999ms'", "delay.rule.0.late_max: expected 1s to 36500d, not '999ms'"),
        ("topics = ['delayline.dead']", "delay.rule: delayline.dead takes no delays, see delay.topics"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(load: Any, rule: str, sentence: str) -> None:
    assert sentence_of(load, f"[[delay.rule]]\n{rule}").startswith(sentence)


def test_a_rule_for_a_topic_that_takes_no_delays_is_refused(load: Any) -> None:
    sentence = sentence_of(load, "[delay]\ntopics = ['mail-*']\n[[delay.rule]]\ntopics = ['mail-eu', 'orders']")
    assert sentence == "delay.rule: orders takes no delays, see delay.topics."


@pytest.mark.parametrize(
    ("topics", "topic", "is_enabled"),
    [
        ("*", "orders", True),
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders", "xorders", False),
        ("orders", "Orders", False),
        ("a.b", "axb", False),  # a dot is a dot
        ("mail-*,orders", "mail-eu", True),
        ("mail-*,orders", "orders", True),
        ("mail-*,orders", "email-eu", False),
        ("v?", "v1", True),
        ("v?", "v12", False),
        ("", "orders", False),
        ("*", "delayline.buffer.orders", False),
        ("*", "delayline.dead", False),
        ("delayline.*", "delayline.dead", False),
        ("*", "delayline", True),
        ("*", "__consumer_offsets", False),
        ("*", "%RETRY%group", False),
        ("*", "", False),
        ("*", ".", False),
        ("*", "a b", False),
        ("*", "x" * 232, True),  # with delayline.buffer. in front: 249
        ("*", "x" * 233, False),
    ],
)
def test_a_topic_takes_delays_when_a_pattern_names_it_and_its_buffer_can_exist(
    load: Any, topics: str, topic: str, is_enabled: bool
) -> None:
    assert load(env={"DELAY__TOPICS": topics}).is_delay_enabled(topic) is is_enabled


# --- what is not built


ROCKETMQ = "[mq]\nkind = 'rocketmq'\nbootstrap_servers = 'a:9876'\n"


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        (f"{ROCKETMQ}[topics]\nmax = 7", "topics.max"),
        (f"{ROCKETMQ}set_aside_bytes_max = '1KiB'", "mq.set_aside_bytes_max"),
        (f"{ROCKETMQ}[dispatch]\ntimestamp = 'due'", "dispatch.timestamp"),
        (f"{ROCKETMQ}[dispatch]\nbatch_bytes_max = '5MiB'", "dispatch.batch_bytes_max"),
        (f"{ROCKETMQ}[proxy.kafka]\nport = 9092", "proxy.kafka.port"),
        ("[mq]\nbootstrap_servers = 'k1:9092'", "mq.bootstrap_servers"),
        ("[mq]\ntopics_create = false", "mq.topics_create"),
        ("[mq.properties]\n'linger.ms' = 5", "mq.properties"),
        ("[dispatch]\nclock_skew_max = '1s'", "dispatch.clock_skew_max"),
        ("[worker]\nport = 9000", "worker.port"),
        ("[internal]\nport = 9001", "internal.port"),
        ("[internal]\nsecret = 'sixteen letters!'", "internal.secret"),
        ("[api]\nauth = 'basic'", "api.auth"),
        ("[access]\nrules = 'rules.toml'", "access.rules"),
        ("[access]\nkeys = 'keys.json'", "access.keys"),
        ("[access]\nsession_secret = 'sixteen letters!'", "access.session_secret"),
        ("[access]\nsession_lifetime = '1h'", "access.session_lifetime"),
        ("[delay]\ndiscovery_interval = '5s'", "delay.discovery_interval"),
        ("[proxy.kafka]\nport = 9092", "proxy.kafka.port"),
        ("[proxy.kafka]\nadvertised_host = 'k1'", "proxy.kafka.advertised_host"),
        ("[proxy.kafka]\nframe_bytes_max = '2MiB'", "proxy.kafka.frame_bytes_max"),
        ("[proxy.rocketmq]\nport = 9876", "proxy.rocketmq.port"),
        ("[proxy.rocketmq]\nframe_bytes_max = '8MiB'", "proxy.rocketmq.frame_bytes_max"),
    ],
)
def test_a_setting_whose_feature_does_not_exist_is_refused_not_ignored(
    load: Any, tmp_path: Path, toml: str, key: str
) -> None:
    found = sentence_of(load, toml)
    assert found.startswith(f"{key}: ")
    assert found.endswith(f"(from {tmp_path / 'delayline.toml'}).")


def test_the_kafka_proxy_reads_quotas_where_http_has_no_keys(load: Any) -> None:
    toml = f"{KAFKA}[proxy.kafka]\nport = 9092\n[access]\nrules = 'rules.toml'\n"
    assert load(toml).access.rules == Path("rules.toml")
    assert sentence_of(load, f"{toml}keys = 'keys.json'").startswith("access.keys: ")


def test_a_setting_whose_feature_does_not_exist_may_be_written_with_its_default(load: Any) -> None:
    toml = "[mq]\nkind = 'embedded'\n[dispatch]\nclock_skew_max = '5s'\n[api]\nauth = 'none'\n[proxy.kafka]\nport = 0"
    assert {key: value for key, (value, _) in rows(load(toml)).items()} == {
        key: value for key, (value, _) in rows(Settings()).items()
    }


KAFKA = "[mq]\nkind = 'kafka'\nbootstrap_servers = 'k1:9092'\n"


def test_what_is_for_kafka_is_taken_where_the_queue_is_kafka(load: Any) -> None:
    more = "topics_create = false\nproperties = {'compression.type' = 'zstd'}\n"
    settings = load(KAFKA + more + "[worker]\nport = 9000\n[delay]\ntopics = ['orders']\ndiscovery_interval = '5s'")
    assert (settings.mq.topics_create, settings.worker.port, settings.delay.topics) == (False, 9000, ("orders",))


@pytest.mark.parametrize("line", ["path = 'auto'", "guarantee = 'exactly-once'"])
def test_a_setting_that_was_removed_is_refused_with_what_to_do(load: Any, tmp_path: Path, line: str) -> None:
    name = line.split()[0]
    with pytest.raises(ConfigError, match=f"^DELAYLINE_MQ__{name.upper()}: this setting was removed"):
        load(env={f"MQ__{name.upper()}": "auto"})
    found = sentence_of(load, f"[mq]\n{line}")
    assert found.startswith(f"mq.{name}: this setting was removed, ")
    assert found.endswith(f"; take it out (from {tmp_path / 'delayline.toml'}).")


def test_no_topic_takes_delays_on_a_queue_of_others_before_one_is_named(load: Any) -> None:
    assert load(KAFKA).delay.topics == ()
    assert not load(KAFKA).is_delay_enabled("orders")
    assert load("").delay.topics == ("*",)


def test_kafka_without_servers_is_refused(load: Any) -> None:
    assert sentence_of(load, "[mq]\nkind = 'kafka'").startswith("mq.bootstrap_servers: ")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_an_address_that_others_can_reach_is_refused_without_authentication(load: Any, host: str) -> None:
    assert sentence_of(load, env={"API__HOST": host}).startswith("api.host: ")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
@pytest.mark.parametrize("section", ["api", "worker"])
def test_it_is_accepted_where_a_setting_allows_access_without_authentication(
    load: Any, section: str, host: str
) -> None:
    toml = f"{KAFKA}[{section}]\nhost = '{host}'\n"
    assert sentence_of(load, toml).startswith(f"{section}.host: ")
    opened = load(toml, env={"API__AUTH": "none-on-any-address"})
    assert getattr(opened, section).host == host


@pytest.mark.parametrize("auth", ["basic", "None", "none-on-any", ""])
def test_authentication_that_is_not_built_is_refused(load: Any, auth: str) -> None:
    assert sentence_of(load, env={"API__AUTH": auth, "API__HOST": "0.0.0.0"}).startswith("api.auth: ")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_loopback_address_is_accepted(load: Any, host: str) -> None:
    assert load(env={"API__HOST": host}).api.host == host


# --- keys and sessions


BY_KEYS = "[api]\nauth = 'keys'\n[access]\nrules = 'rules.toml'\nkeys = 'keys.json'\n"


@pytest.mark.parametrize("name", ["rules", "keys"])
def test_keys_need_both_files(load: Any, name: str) -> None:
    toml = "\n".join(line for line in BY_KEYS.splitlines() if not line.startswith(f"{name} ="))
    assert sentence_of(load, toml).startswith(f"access.{name}: ")


def test_acts_are_written_down_without_keys_too(load: Any) -> None:
    assert load("[access]\nact_log = 'acts.jsonl'").access.act_log is not None


def test_sessions_last_half_a_day_and_need_no_secret(load: Any) -> None:
    access = load(BY_KEYS).access
    assert (access.session_lifetime, access.session_secret.get_secret_value()) == (43_200_000, "")


@pytest.mark.parametrize(("lifetime", "is_taken"), [("4m59s", False), ("5m", True), ("30d", True), ("31d", False)])
def test_the_lifetime_of_sessions_has_bounds(load: Any, lifetime: str, is_taken: bool) -> None:
    toml = f"{BY_KEYS}session_lifetime = '{lifetime}'"
    if is_taken:
        load(toml)
    else:
        assert sentence_of(load, toml).startswith("access.session_lifetime: ")


def test_a_secret_of_sessions_that_can_be_guessed_is_refused_and_not_shown(load: Any) -> None:
    found = sentence_of(load, f"{BY_KEYS}session_secret = 'fifteen letters'")
    assert found.startswith("access.session_secret: ")
    assert "fifteen letters" not in found
    access = load(f"{BY_KEYS}session_secret = 'sixteen letters!'").access
    assert access.session_secret.get_secret_value() == "sixteen letters!"


# --- the port for other processes


def test_processes_on_one_machine_need_nothing_to_ask_each_other(load: Any) -> None:
    internal = load(KAFKA).internal
    assert (internal.host, internal.port, internal.reached_at) == ("127.0.0.1", 0, "127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_the_internal_port_is_not_opened_to_other_machines_without_a_secret(load: Any, host: str) -> None:
    toml = f"{KAFKA}[internal]\nadvertised_host = 'w1'\nhost = '{host}'"
    assert sentence_of(load, toml).startswith("internal.host: ")
    assert load(f"{toml}\nsecret = 'sixteen letters!'").internal.reached_at == "w1"


def test_the_secret_may_stand_in_a_file(load: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sixteen letters!\n")
    internal = load(KAFKA + "[internal]\nhost = '10.0.0.1'\nsecret.file = 'secret'").internal
    assert internal.secret.get_secret_value() == "sixteen letters!"
    assert internal.reached_at == "10.0.0.1"


def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(load: Any) -> None:
    found = sentence_of(load, KAFKA + "[internal]\nsecret = 'fifteen letters'")
    assert found.startswith("internal.secret: ")
    assert "fifteen letters" not in found


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_every_address_of_a_machine_is_none_that_others_can_use(load: Any, host: str) -> None:
    toml = f"{KAFKA}[internal]\nsecret = 'sixteen letters!'\nhost = '{host}'"
    assert sentence_of(load, toml).startswith("internal.advertised_host: ")


# --- secrets


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MQ__PROPERTIES", '{"sasl.password": "s3cret"}'),
        ("MQ__PROPERTIES", '{"sasl.password": "s3cret"'),
        ("MQ__PROPERTIES", '{"sasl.password": ["s3cret"]}'),
        ("MQ__PROPERTIES", '{"sasl.password": {"text": "s3cret"}}'),
        ("MQ__PROPERTIES", '"s3cret"'),
        ("MQ__PROPERTIES", '["s3cret"]'),
        ("MQ__PROPERTIES", "s3cret"),
    ],
)
def test_a_secret_stands_in_no_error(load: Any, variable: str, value: str) -> None:
    assert "s3cret" not in sentence_of(load, env={variable: value})


def test_a_secret_stands_in_no_description() -> None:
    settings = Settings.model_validate({"mq": {"properties": {"sasl.password": "s3cret"}}})
    assert "s3cret" not in str(describe(settings)) + repr(settings)
    assert "sasl.password" in rows(settings)["mq.properties"][0]


def test_a_command_runs_once_when_the_settings_are_read(load: Any, tmp_path: Path) -> None:
    command = ["sh", "-c", "echo run >> runs; echo sixteen letters!"]
    toml = f"{KAFKA}[internal]\nhost = '10.0.0.1'\nsecret.command = {json.dumps(command)}"
    settings = load(toml)
    assert settings.internal.secret.get_secret_value() == "sixteen letters!"
    assert rows(settings)["internal.secret"][0] == "**********"
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_missing_secret_file_is_named(load: Any) -> None:
    found = sentence_of(load, "[mq.properties]\n'sasl.password'.file = 'missing'")
    assert found.startswith("mq.properties.sasl.password: cannot read the file missing: No such file or directory")


def test_every_node_has_a_port_that_exists(load: Any) -> None:
    assert load(KAFKA + "[proxy.kafka]\nport = 65519").proxy.kafka.port == 65_519
    assert "beyond 65535" in sentence_of(load, KAFKA + "[proxy.kafka]\nport = 65520")
    assert load(KAFKA + "[proxy.kafka]\nport = 65520\nnodes_max = 3").proxy.kafka.nodes_max == 3


def test_rocketmq_needs_a_name_server(load: Any) -> None:
    assert sentence_of(load, "[mq]\nkind = 'rocketmq'").startswith("mq.bootstrap_servers: RocketMQ needs")
