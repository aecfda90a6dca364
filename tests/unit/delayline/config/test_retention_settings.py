"""What topics keep, as it is set: which rule counts for which topic, and what is refused."""

import json
from pathlib import Path

import pytest

from delayline.buffer.undo import UNDO_MAX_MS
from delayline.config import Settings, load_settings
from delayline.errors import ConfigError

MIB, DAYS = "1MiB", "2d"


def loaded(tmp_path: Path, rules: list[dict[str, object]], **more: str) -> Settings:
    environ = {"DELAYLINE_TOPICS__RULE": json.dumps(rules), **more}
    return load_settings(None, {}, environ, tmp_path)


def test_the_first_rule_that_matches_counts(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path, [{"topics": ["mail-*"], "retention": "1d"}, {"topics": ["*"], "retention_bytes": "1MiB"}]
    )
    mail, orders = settings.retention_for("mail-1"), settings.retention_for("orders")
    assert (mail.retention, mail.retention_bytes) == (86_400_000, None)
    assert (orders.retention, orders.retention_bytes) == (None, 1 << 20)


@pytest.mark.parametrize("own", ["delayline.audit", "delayline.dead", "delayline.retry.g"])
def test_our_own_topics_are_matched_only_by_patterns_that_name_us(tmp_path: Path, own: str) -> None:
    settings = loaded(
        tmp_path, [{"topics": ["*"], "retention": "1d"}, {"topics": ["delayline.*"], "retention": "2d"}]
    )
    assert settings.retention_for(own).retention == 2 * 86_400_000
    assert settings.retention_for("delayliner").retention == 86_400_000


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (
            {"topics": ["delayline.audit"], "retention": "1h"},
            r"kept for audit\.hold_max at least",
        ),
        ({"topics": ["delayline.*"], "retention_bytes": "1GiB"}, "takes no retention_bytes"),
        ({"topics": ["delayline.purged"], "retention": "5m"}, r"kept for history\.undo at least"),
        ({"topics": ["a"], "retention": "1s"}, "retention"),
        ({"topics": ["a"], "retention_bytes": "1B"}, "retention_bytes"),
        ({"topics": []}, "topics"),
        ({"topics": ["a"], "retentoin": "1d"}, r"did you mean .*retention"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(tmp_path: Path, rule: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        loaded(tmp_path, [rule])


def test_copies_for_an_undo_go_after_two_days_where_no_rule_names_them(tmp_path: Path) -> None:
    assert loaded(tmp_path, []).retention_for("delayline.purged").retention == 2 * 86_400_000
    assert loaded(tmp_path, []).retention_for("delayline.operators").retention is None


def test_an_undo_is_possible_for_as_long_as_lists_of_undos_look_back(tmp_path: Path) -> None:
    longest, longer = ({"DELAYLINE_HISTORY__UNDO": f"{ms}ms"} for ms in (UNDO_MAX_MS, UNDO_MAX_MS + 1))
    assert loaded(tmp_path, [], **longest).history.undo == UNDO_MAX_MS
    with pytest.raises(ConfigError, match=r"history\.undo"):
        loaded(tmp_path, [], **longer)


def test_on_kafka_the_brokers_keep_the_topics(tmp_path: Path) -> None:
    kafka = {"DELAYLINE_MQ__KIND": "kafka", "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with pytest.raises(ConfigError, match=r"topics\.rule: the brokers"):
        loaded(tmp_path, [{"topics": ["a"], "retention": "1d"}], **kafka)
