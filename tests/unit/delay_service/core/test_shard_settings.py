"""What a shard does where the configuration does not name its topic."""

from pathlib import Path

from delay_service.core.shard_settings import NEVER_MS, ShardSettings
from delayline.config import load_settings
from delayline.schedule.rules import DEFAULT_RULES
from tests.unit.delay_service.harness import NAMES


def test_a_topic_without_rules_of_its_own_expires_nothing_and_has_no_rate() -> None:
    settings = ShardSettings(DEFAULT_RULES, NAMES)
    assert (settings.late_max_ms, settings.rate_max) == (NEVER_MS, None)


def test_defaults_are_those_of_the_configuration() -> None:
    configured, settings = load_settings(None, {}, {}, Path()), ShardSettings(DEFAULT_RULES, NAMES)
    assert (settings.near_due_ms, settings.timestamp) == (configured.store.near_due, configured.dispatch.timestamp)
    assert settings.low_water_interval_ms == configured.audit.low_water_interval
    assert settings.idempotency_retention_ms == configured.history.retention
