"""Which file of quotas a process reads, and the entrance that counts none."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cli.api_parts import NOT_ROCKETMQ, ledgers
from delayline.clock import ManualClock
from delayline.config import Settings
from delayline.config.entrance import Access, Api
from delayline.config.proxies import Proxy, RocketmqProxy
from delayline.process.watched import Watcher

RULE = "[[rule]]\nprincipals = ['ann']\ntopics = ['*']\nacts = ['send']\n"
QUOTA = "[[quota]]\nprincipals = ['ann']\nrequests_per_second = 1\n"


@pytest.mark.parametrize(("text", "uncounted"), [(RULE + QUOTA, 1), (RULE, 0)])
def test_quotas_that_the_rocketmq_proxy_does_not_count_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, uncounted: int
) -> None:
    rules, registry = tmp_path / "rules.toml", CollectorRegistry()
    rules.write_text(text)
    proxy = Proxy(rocketmq=RocketmqProxy(port=9876))
    settings = Settings(api=Api(auth="keys"), access=Access(rules=rules), proxy=proxy)
    with ledgers(settings, None, Watcher(), registry, ManualClock()) as opened:
        assert opened is not None
        assert registry.get_sample_value("delayline_quota_uncounted", {"entrance": "rocketmq"}) == uncounted
    assert (NOT_ROCKETMQ in capsys.readouterr().out) == bool(uncounted)


def test_without_a_file_nothing_is_counted() -> None:
    with ledgers(Settings(), None, Watcher(), CollectorRegistry(), ManualClock()) as opened:
        assert opened is None
