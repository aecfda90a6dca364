"""What principals have used of their quotas, in this process.

A bucket lets pass while it has a token, and what passes may cost more than there are: the bucket goes into debt, and
lets nothing pass until that is paid. So a request that is larger than the burst is slow, and not impossible; what a
principal gets in the long run is the rate. Kafka's brokers do it so (ClientQuotaManager): what a request costs is
known when it has been read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from delayline.access.quotas import Breach, Limit, Quota, Rate
from delayline.access.rules import AccessRules
from delayline.clock import Clock
from delayline.errors import DelaylineError

PRINCIPALS_MAX = 10_000
"""Whose buckets are remembered at each entrance; of more, those that owe something."""


class OverQuota(DelaylineError):
    """A request is refused for a quota. After `wait_s` the same may pass; None: never."""

    def __init__(self, limit: Limit, detail: str, wait_s: float | None = None) -> None:
        super().__init__(detail)
        self.limit = limit
        self.wait_s = wait_s


class Bucket:
    """`used` tokens are missing: more than the burst is a debt. A change of the rate counts from then on."""

    __slots__ = ("_at_s", "_used")

    def __init__(self, now_s: float) -> None:
        self._used = 0.0
        self._at_s = now_s

    def used(self, rate: Rate, now_s: float) -> float:
        """Now; nothing is changed."""
        return max(0.0, self._used - rate[0] * (now_s - self._at_s))

    def pay(self, rate: Rate, now_s: float, count: float) -> None:
        """Whatever there is. Negative: to give back. Hot."""
        used = self._used - rate[0] * (now_s - self._at_s)
        self._used = used + count if used > 0 else count
        self._at_s = now_s

    def take(self, rate: Rate, now_s: float) -> float:
        """A token, if there is one; else how long until there is. Hot."""
        used = self._used - rate[0] * (now_s - self._at_s)
        if used + 1 > rate[1]:
            return (used + 1 - rate[1]) / rate[0]
        self._used = used + 1 if used > 0 else 1
        self._at_s = now_s
        return 0.0

    def wait_s(self, rate: Rate, now_s: float) -> float:
        """Until there is a token. Hot."""
        lacking = self._used - rate[0] * (now_s - self._at_s) + 1 - rate[1]
        return lacking / rate[0] if lacking > 0 else 0.0


class Tally:
    """What all principals of a quota have done."""

    __slots__ = ("bytes", "muted_s", "refused", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self.muted_s = 0.0
        self.refused: Counter[Limit] = Counter()


class Use(NamedTuple):
    """How many tokens of a bucket are missing now, of how many."""

    limit: Limit
    used: int
    burst: int


class Account:
    """Of one principal, under the quota that holds for it now."""

    def __init__(self, principal: str, quota: Quota, tally: Tally, clock: Clock) -> None:
        self.principal = principal
        self.quota = quota
        self.throttled = 0
        self._tally = tally
        self._now_s = clock.monotonic_s
        now_s = self._now_s()
        self._bytes, self._requests, self._topics = Bucket(now_s), Bucket(now_s), Bucket(now_s)

    def change(self, quota: Quota, tally: Tally) -> None:
        """Another one holds from now on, and what is used stays so."""
        for _, bucket, rate in _rates(self._buckets, self.quota):
            bucket.pay(rate, self._now_s(), 0)
        self.quota, self._tally = quota, tally

    # --- before something is done

    def take_request(self) -> None:
        """Hot: once per request. Raises OverQuota."""
        if (rate := self.quota.requests) is not None:
            self._take(Limit.REQUESTS, self._requests, rate)
        self._tally.requests += 1

    @contextmanager
    def making_topic(self) -> Iterator[None]:
        """Around it: one that was not made does not count. Raises OverQuota."""
        rate = self.quota.topics
        if rate is None:
            yield
            return
        self._take(Limit.TOPICS, self._topics, rate)
        try:
            yield
        except BaseException:
            self._topics.pay(rate, self._now_s(), -1)
            raise

    def check_bytes(self) -> None:
        """Before any are read. Hot: once per request. Raises OverQuota."""
        if (rate := self.quota.bytes) is not None:
            wait_s = self._bytes.wait_s(rate, self._now_s())
            if wait_s > 0:
                raise self.used_up(Limit.BYTES, wait_s)

    def _take(self, limit: Limit, bucket: Bucket, rate: Rate) -> None:
        wait_s = bucket.take(rate, self._now_s())
        if wait_s > 0:
            raise self.used_up(limit, wait_s)

    def check_schedule(self, ahead_ms: int, times: int | None) -> None:
        """See `Quota.breach`. Raises OverQuota."""
        breach = self.quota.breach(ahead_ms, times)
        if breach is not None:
            raise self.refusal(*breach)

    def used_up(self, limit: Limit, wait_s: float) -> OverQuota:
        """A refusal for a rate. It is counted."""
        given = self.quota.limits[limit]
        self.note_refused(limit)
        return OverQuota(limit, f"the quota `{limit}` of {self.principal} is used up: {given}", wait_s)

    def refusal(self, limit: Limit, why: str) -> OverQuota:
        """Of what passes no sooner for waiting. It is counted."""
        self.note_refused(limit)
        return OverQuota(limit, self.sentence(Breach(limit, why)))

    def sentence(self, breach: Breach) -> str:
        """With the quota's name."""
        return f"{breach.why} (the quota `{breach.limit}` of {self.principal})"

    def note_refused(self, limit: Limit) -> None:
        self.throttled += 1
        self._tally.refused[limit] += 1

    # --- when something is done

    def pay_bytes(self, count: int) -> None:
        """They were read, or stored. Hot: once per request."""
        if (rate := self.quota.bytes) is not None:
            self._bytes.pay(rate, self._now_s(), count)
        self._tally.bytes += count

    def pay_request(self) -> None:
        """It was carried out, whatever there was in the bucket."""
        if (rate := self.quota.requests) is not None:
            self._requests.pay(rate, self._now_s(), 1)
        self._tally.requests += 1

    @property
    def wait_s(self) -> float:
        """Until a request, and a byte, would pass."""
        now_s, rates = self._now_s(), _rates(self._buckets, self.quota)
        return max(
            (bucket.wait_s(rate, now_s) for limit, bucket, rate in rates if limit != Limit.TOPICS), default=0.0
        )

    def note_muted(self, wait_s: float) -> None:
        """A connection of it is not read for so long."""
        self.throttled += 1
        self._tally.muted_s += wait_s

    # --- what is shown

    def uses(self, quota: Quota) -> list[Use]:
        """Of each rate that this quota has, which may have come into force just now. For any thread."""
        now_s, rates = self._now_s(), _rates(self._buckets, quota)
        return [Use(limit, round(bucket.used(rate, now_s)), rate.burst) for limit, bucket, rate in rates]

    @property
    def owes(self) -> bool:
        """Whether a bucket is not full."""
        return any(use.used for use in self.uses(self.quota))

    @property
    def _buckets(self) -> tuple[Bucket, Bucket, Bucket]:
        return self._bytes, self._requests, self._topics


def _rates(buckets: tuple[Bucket, Bucket, Bucket], quota: Quota) -> list[tuple[Limit, Bucket, Rate]]:
    """The buckets that the quota has a rate for."""
    limits, rates = (Limit.BYTES, Limit.REQUESTS, Limit.TOPICS), (quota.bytes, quota.requests, quota.topics)
    found = zip(limits, buckets, rates, strict=True)
    return [(limit, bucket, rate) for limit, bucket, rate in found if rate is not None]


class Ledger:
    """The accounts of the principals of one entrance. Belongs to its event loop; what is shown is for any thread.
    `rules` gives those of now: buckets outlast a change of them."""

    def __init__(self, rules: Callable[[], AccessRules], clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._accounts: dict[str, Account] = {}  # bounded: PRINCIPALS_MAX
        self.tallies: dict[str, Tally] = {}  # by the labels of the quotas that were ever in the file

    def account(self, principal: str) -> Account | None:
        """None where no quota is for it. Hot: once per request."""
        rules = self._rules()
        quota = rules.quota_of(principal) if rules.quotas else None
        if quota is None:
            return None
        account = self._accounts.get(principal)
        if account is None:
            account = self._open(principal, quota)
        elif account.quota is not quota:
            account.change(quota, self._tally(quota))
        return account

    def _open(self, principal: str, quota: Quota) -> Account:
        if len(self._accounts) >= PRINCIPALS_MAX:
            oldest = next(iter(self._accounts))
            full = next((name for name, account in self._accounts.items() if not account.owes), oldest)
            del self._accounts[full]
        account = self._accounts[principal] = Account(principal, quota, self._tally(quota), self._clock)
        return account

    def _tally(self, quota: Quota) -> Tally:
        return self.tallies.setdefault(quota.label, Tally())

    def accounts(self) -> list[tuple[Account, Quota]]:
        """By name, with the quotas that hold for them now."""
        rules, accounts = self._rules(), list(self._accounts.values())
        known = [(one, rules.quota_of(one.principal)) for one in sorted(accounts, key=lambda one: one.principal)]
        return [(account, quota) for account, quota in known if quota is not None]


class Ledgers(Collector):
    """Those of a process, one for each entrance."""

    def __init__(self, rules: Callable[[], AccessRules], clock: Clock, registry: CollectorRegistry) -> None:
        self._rules = rules
        self.http, self.kafka = Ledger(rules, clock), Ledger(rules, clock)
        registry.register(self)

    @property
    def quotas(self) -> Sequence[Quota]:
        """Those of now."""
        return self._rules().quotas

    def collect(self) -> Iterator[Metric]:
        """By quotas and not by principals: a file has few of them."""
        names = ["entrance", "quota"]
        requests = CounterMetricFamily("delayline_quota_requests", "Requests that count for a quota", labels=names)
        size = CounterMetricFamily("delayline_quota_bytes", "Bytes that count for a quota", labels=names)
        muted = CounterMetricFamily("delayline_quota_muted_seconds", "Pauses of Kafka connections", labels=names)
        refused = CounterMetricFamily(
            "delayline_quota_refused", "Requests and batches refused for a quota", labels=[*names, "limit"]
        )
        for entrance, ledger in (("http", self.http), ("kafka", self.kafka)):
            for label, tally in list(ledger.tallies.items()):
                requests.add_metric([entrance, label], tally.requests)
                size.add_metric([entrance, label], tally.bytes)
                muted.add_metric([entrance, label], tally.muted_s)
                for limit, count in list(tally.refused.items()):
                    refused.add_metric([entrance, label, limit], count)
        yield from (requests, size, muted, refused)
