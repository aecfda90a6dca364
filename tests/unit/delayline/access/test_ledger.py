"""Buckets, debts, and what a change of the quotas leaves of them."""

import pytest
from prometheus_client import CollectorRegistry

from delayline.access import ledger
from delayline.access.ledger import Account, Ledgers, OverQuota
from delayline.access.quotas import Limit
from delayline.access.rules import AccessRules, parse_rules
from delayline.clock import ManualClock

RULE = '[[rule]]\nprincipals = ["*"]\ntopics = ["*"]\nacts = ["send"]\n'


class Books:
    def __init__(self, *limits: str, principals: str = "*") -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.rules = AccessRules([])
        self.limit(*limits, principals=principals)
        self.ledgers = Ledgers(lambda: self.rules, self.clock, self.registry)

    def limit(self, *limits: str, principals: str = "*") -> None:
        lines = "\n".join(limits)
        self.rules = parse_rules(f"{RULE}[[quota]]\nprincipals = ['{principals}']\n{lines}\n", "rules.toml")

    def account(self, principal: str = "ann") -> Account:
        found = self.ledgers.http.account(principal)
        assert found is not None
        return found

    def metric(self, name: str, quota: str = "*", **more: str) -> float | None:
        labels = {"entrance": "http", "quota": quota, **more}
        return self.registry.get_sample_value(f"delayline_quota_{name}_total", labels)


def taken(account: Account, wanted: int = 1000) -> int:
    """How many requests pass one after the other."""
    for number in range(wanted):
        try:
            account.take_request()
        except OverQuota:
            return number
    return wanted


def test_the_burst_passes_and_then_the_rate() -> None:
    books = Books("requests_per_second = 2", "requests_burst = 5")
    ann = books.account()
    assert taken(ann) == 5
    books.clock.advance(499)
    assert taken(ann) == 0
    books.clock.advance(1)
    assert taken(ann) == 1
    books.clock.advance(3_600_000)
    assert taken(ann) == 5


def test_a_refusal_names_the_limit_and_how_long_to_wait() -> None:
    books = Books("requests_per_second = 2", "requests_burst = 1")
    ann = books.account()
    ann.take_request()
    books.clock.advance(100)
    with pytest.raises(OverQuota, match="`requests_per_second` of ann is used up: 2") as refused:
        ann.take_request()
    assert refused.value.limit is Limit.REQUESTS
    assert refused.value.wait_s == pytest.approx(0.4)


def test_what_is_larger_than_the_burst_passes_and_leaves_a_debt() -> None:
    books = Books('bytes_per_second = "100B"', 'bytes_burst = "50B"')
    ann = books.account()
    ann.check_bytes()
    ann.pay_bytes(550)
    with pytest.raises(OverQuota) as refused:
        ann.check_bytes()
    assert refused.value.wait_s == pytest.approx(5.01)
    books.clock.advance(5000)
    with pytest.raises(OverQuota):
        ann.check_bytes()
    books.clock.advance(10)
    ann.check_bytes()


def test_in_the_long_run_a_principal_gets_its_rate_however_large_its_requests_are() -> None:
    books = Books('bytes_per_second = "1KiB"', 'bytes_burst = "1B"')
    ann, passed = books.account(), 0
    for _ in range(600_000 // 100):
        books.clock.advance(100)
        try:
            ann.check_bytes()
        except OverQuota:
            continue
        ann.pay_bytes(7000)
        passed += 7000
    assert passed == pytest.approx(600 * 1024, rel=0.02)


def test_each_principal_has_buckets_of_its_own_and_one_at_each_entrance() -> None:
    books = Books("requests_per_second = 1", "requests_burst = 1")
    assert taken(books.account("ann")) == 1
    assert taken(books.account("ann")) == 0
    assert taken(books.account("bob")) == 1
    other = books.ledgers.kafka.account("ann")
    assert other is not None
    assert taken(other) == 1


def test_buckets_outlast_a_change_of_the_file() -> None:
    books = Books("requests_per_second = 1", "requests_burst = 5")
    assert taken(books.account()) == 5
    books.limit("requests_per_second = 1", "requests_burst = 5", "pending_max = 3")
    assert taken(books.account()) == 0
    books.clock.advance(2000)
    books.limit("requests_per_second = 100", "requests_burst = 5")
    assert taken(books.account()) == 2


def test_a_higher_rate_pays_a_debt_from_then_on() -> None:
    books = Books('bytes_per_second = "1B"', 'bytes_burst = "1B"')
    books.account().pay_bytes(3600)
    books.limit('bytes_per_second = "1MiB"')
    books.clock.advance(1)
    books.account().check_bytes()


def test_a_principal_without_a_quota_has_no_account() -> None:
    books = Books("requests_per_second = 1", principals="eve")
    assert books.ledgers.http.account("ann") is None
    books.limit("requests_per_second = 1", principals="ann")
    assert books.ledgers.http.account("ann") is not None


@pytest.mark.parametrize(
    ("ahead_ms", "times", "limit"),
    [
        (86_400_000, 3, None),
        (86_400_001, 3, Limit.HORIZON),
        (0, 4, Limit.TIMES),
        (0, None, Limit.TIMES),
        (0, 1, None),
    ],
)
def test_schedules_are_bounded(ahead_ms: int, times: int | None, limit: Limit | None) -> None:
    ann = Books('horizon_max = "1d"', "times_max = 3").account()
    if limit is None:
        ann.check_schedule(ahead_ms, times)
        return
    with pytest.raises(OverQuota) as refused:
        ann.check_schedule(ahead_ms, times)
    assert (refused.value.limit, refused.value.wait_s) == (limit, None)


def test_topics_come_by_the_hour_and_one_that_was_not_made_is_given_back() -> None:
    books = Books("topics_per_hour = 2")
    ann = books.account()
    with ann.making_topic():
        pass
    with pytest.raises(KeyError), ann.making_topic():
        raise KeyError
    with ann.making_topic():
        pass
    with pytest.raises(OverQuota) as refused, ann.making_topic():
        pass
    assert refused.value.wait_s == pytest.approx(1800)


def test_what_is_waited_for_is_the_longer_of_bytes_and_requests_and_not_topics() -> None:
    books = Books('bytes_per_second = "1B"', 'bytes_burst = "1B"', "requests_per_second = 1", "topics_per_hour = 1")
    ann = books.account()
    assert ann.wait_s == 0
    with ann.making_topic():
        pass
    assert ann.wait_s == 0
    ann.pay_bytes(5)
    ann.pay_request()
    assert ann.wait_s == pytest.approx(5)


def test_what_is_shown() -> None:
    books = Books('bytes_per_second = "10B"', "requests_per_second = 5", "requests_burst = 1")
    ann = books.account()
    assert taken(ann, 2) == 1
    ann.pay_bytes(500)
    books.clock.advance(100)
    ((shown, quota),) = books.ledgers.http.accounts()
    uses = {use.limit: (use.used, use.burst) for use in shown.uses(quota)}
    assert uses == {Limit.BYTES: (499, 100), Limit.REQUESTS: (0, 1)}
    assert (shown.principal, shown.throttled) == ("ann", 1)
    assert books.metric("requests") == 1
    assert books.metric("bytes") == 500
    assert books.metric("refused", limit="requests_per_second") == 1
    books.limit("pending_max = 1")
    ((shown, quota),) = books.ledgers.http.accounts()
    assert shown.uses(quota) == []


def test_of_too_many_principals_those_that_owe_something_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "PRINCIPALS_MAX", 2)
    books = Books("requests_per_second = 1", "requests_burst = 1")
    assert taken(books.account("owes")) == 1
    books.account("full")
    books.account("new")
    assert [account.principal for account, _ in books.ledgers.http.accounts()] == ["new", "owes"]
    assert taken(books.account("owes")) == 0
