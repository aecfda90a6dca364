"""What each property of `mq.properties` is for, and what becomes of it."""

import pickle
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from delayline.errors import ConfigError
from kafkawire.security.oauth.local import COMMAND, FILE
from mq.errors import QueueUnavailable
from mq.kafka.properties import BOTH, only_for_library, refuse_unspoken, unspoken
from mq.kafka.settings import KafkaSettings

BEARER = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"


def settings(**properties: str) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers="127.0.0.1:1", properties={**BEARER, **properties})


def test_what_tunes_the_library_goes_to_it_alone() -> None:
    names = ["socket.timeout.ms", "queued.min.messages", "linger.ms", "statistics.interval.ms", "batch.size"]
    assert only_for_library([*names, "sasl.username", "nonsense"]) == sorted(names)


@pytest.mark.parametrize(
    "name",
    ["nonsense", "ssl.engine.location", "plugin.library.paths", "sasl.oauthbearer.assertion.file", "delayline.x"],
)
def test_what_is_not_known_is_refused_by_name(name: str) -> None:
    assert unspoken([name, "linger.ms", "sasl.username"]) == [name]
    with pytest.raises(ConfigError, match=re.escape(name)):
        refuse_unspoken([name])
    with pytest.raises(ConfigError, match=re.escape(name)):
        KafkaSettings(bootstrap_servers="127.0.0.1:1", properties={name: "x"})


def test_librdkafka_is_given_tokens_and_not_where_they_come_from(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("abc")
    made = settings(**{FILE: str(file), "sasl.oauthbearer.extensions": "a=b", "linger.ms": "3"})
    assert made.tokens is not None
    for config in (made.admin(), made.member("one"), made.reader(), made.producer(), made.transactional("one")):
        assert {name for name in config if "oauthbearer" in name} == set()
        assert (config["oauth_cb"], config["linger.ms"]) == (made.tokens.for_library, "3")
    AdminClient(made.admin())


def test_settings_with_tokens_can_be_sent_to_another_process(tmp_path: Path) -> None:
    """As those of the reconcile job are, to its executors."""
    (file := tmp_path / "token").write_text("abc")
    made = settings(**{FILE: str(file)})
    there = pickle.loads(pickle.dumps(made))
    assert there == made
    assert there.tokens.token().value == "abc"


def test_without_a_token_no_client_is_made_that_would_wait_for_one() -> None:
    with pytest.raises(QueueUnavailable, match=r"delayline\.oauthbearer\.token\.file: No such file"):
        settings(**{FILE: "/nowhere/token"}).admin()


def test_names_of_our_own_never_reach_librdkafka() -> None:
    plain = {"security.protocol": "plaintext", "sasl.mechanism": "PLAIN", FILE: "/token", COMMAND: "token"}
    assert not set(settings(**plain).admin()) & {FILE, COMMAND, "oauth_cb"}


def test_a_login_by_tokens_names_their_source() -> None:
    with pytest.raises(ConfigError, match=r"delayline\.oauthbearer\.token\.file"):
        settings()


def test_the_page_names_every_property_that_all_connections_heed() -> None:
    section = PAGE.read_text().partition("## Client properties")[2].partition("\n## ")[0]
    first_column = " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    assert sorted(re.findall(r"`([^`]+)`", first_column)) == sorted(BOTH)
