"""Clients' accounts of the RocketMQ proxy, as they are set."""

import json
from pathlib import Path
from typing import Any

import pytest

from delayline.config import Settings, load_settings
from delayline.config.load import describe
from delayline.errors import ConfigError

ORDERS: dict[str, Any] = {"access_key": "orders", "secret_key": "s3cret", "topics": ["orders-*"]}
OWN = {"access_key": "own", "secret_key": "s3cret"}


def loaded(tmp_path: Path, *accounts: dict[str, Any], own: dict[str, str] | None = OWN) -> Settings:
    environ = {
        "DELAYLINE_MQ__KIND": "rocketmq",
        "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "a:9876",
        "DELAYLINE_MQ__PROPERTIES": json.dumps(own or {}),
        "DELAYLINE_PROXY__ROCKETMQ__ACCOUNT": json.dumps(accounts),
    }
    return load_settings(None, {}, environ, tmp_path)


def test_an_account_has_its_secret_from_a_file_and_the_topics_of_its_patterns(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    settings = loaded(tmp_path, ORDERS | {"secret_key": {"file": "secret"}, "topics": ["orders-*", "mails"]})
    (account,) = settings.proxy.rocketmq.account
    assert (account.access_key, account.secret_key.get_secret_value()) == ("orders", "s3cret")
    found = [topic for topic in ("orders-1", "orders", "mails", "mails-1") if account.pattern.fullmatch(topic)]
    assert found == ["orders-1", "mails"]
    assert "s3cret" not in str(describe(settings)) + repr(settings)


@pytest.mark.parametrize(
    ("accounts", "why"),
    [
        ([ORDERS | {"secret_key": ""}], "proxy.rocketmq.account.0.secret_key: "),
        ([ORDERS | {"access_key": ""}], "proxy.rocketmq.account.0.access_key: "),
        ([ORDERS | {"topics": []}], "proxy.rocketmq.account.0.topics: "),
        ([ORDERS | {"topic": "a"}], "proxy.rocketmq.account.0.topic: there is no such setting"),
        ([ORDERS, ORDERS | {"secret_key": "other"}], "an access_key twice"),
    ],
)
def test_an_account_that_cannot_be_is_refused_without_its_secret(
    tmp_path: Path, accounts: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, *accounts)
    assert why in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_accounts_without_one_of_delaylines_have_no_effect_and_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^proxy.rocketmq.account: .*access_key in mq.properties"):
        loaded(tmp_path, ORDERS, own=None)
