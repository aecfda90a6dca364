"""What delayed records cost a principal, and when it is left alone."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from delayline.access.ledger import Account, Ledgers
from delayline.access.rules import read_quotas
from delayline.clock import ManualClock
from kafkawire.batch.head import read_batch
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.produce import ProduceRequest
from proxy.kafka.produce.produces import ClientProduce, PartitionBatch
from proxy.kafka.produce.quotas import DEBT_MAX_S, PAUSE_MAX_S, ConnectionQuota
from proxy.kafka.produce.scan import scan_batch
from proxy.kafka.produce.screen import Seen, directives_of
from proxy.kafka.response_order import Turn
from tests.unit.mq.kafka.batches import batch_of, plain

SCAN = scan_batch(read_batch(batch_of([plain(0)])), directives_of(()))
SEEN = Seen(SCAN, frozenset({0}), None, adds=2)
BYTES = ('bytes_per_second = "100B"', 'bytes_burst = "1B"')


class Scene:
    def __init__(self, *limits: str, principal: str = "User:ann") -> None:
        self.clock = ManualClock()
        lines = "\n".join(limits)
        rules = read_quotas(f"[[quota]]\nprincipals = ['User:ann']\n{lines}\n".encode(), "rules.toml")
        self.ledger = Ledgers(lambda: rules, self.clock, CollectorRegistry()).kafka
        self.principal = principal
        self.pending = 0
        self.muted_s: list[float] = []
        hub: Any = SimpleNamespace(ledger=self.ledger, full=self._full)
        client: Any = self
        self.quota = ConnectionQuota(hub, client)

    def _full(self, _topic: str, *, adds: int, pending_max: int) -> str | None:
        return "full" if self.pending + adds > pending_max else None

    def mute(self, _account: Account, wait_s: float) -> None:
        self.muted_s.append(wait_s)

    def produce(self) -> ClientProduce:
        turn = Turn(ApiKey.PRODUCE, 9, 1)
        made = ClientProduce(turn, turn, RequestHeader(ApiKey.PRODUCE, 9, 1), ProduceRequest(), 0, missing=1)
        made.account = self.quota.account()
        return made

    def code(self) -> ErrorCode | None:
        refusal = self.quota.refusal(PartitionBatch(self.produce(), "orders", 0, None), SEEN)
        return None if refusal is None else refusal.code


def test_a_request_is_paid_once_and_its_bytes_for_each_partition() -> None:
    scene = Scene('bytes_per_second = "100B"', 'bytes_burst = "100B"', "requests_per_second = 1")
    produce = scene.produce()
    for _ in range(3):
        scene.quota.pay(produce, 100)
    ((account, quota),) = scene.ledger.accounts()
    assert {use.limit: use.used for use in account.uses(quota)} == {"bytes_per_second": 300, "requests_per_second": 1}
    assert scene.muted_s == pytest.approx([0.01, 1.01, 2.01])
    assert produce.throttle_time_ms == 2010


def test_the_longer_pause_is_answered_ours_or_the_brokers() -> None:
    scene = Scene(*BYTES)
    produce = scene.produce()
    produce.throttle_time_ms = 3000
    scene.quota.pay(produce, 100)
    assert produce.throttle_time_ms == 3000
    scene.quota.pay(produce, 300)
    assert produce.throttle_time_ms == 4000


def test_a_pause_is_bounded_and_the_debt_is_not_forgotten() -> None:
    scene = Scene(*BYTES)
    scene.quota.pay(scene.produce(), 2000)
    assert scene.muted_s == [PAUSE_MAX_S]
    scene.clock.advance(5000)
    scene.quota.pay(scene.produce(), 0)
    assert scene.muted_s == [PAUSE_MAX_S, PAUSE_MAX_S]
    scene.clock.advance(14_000)
    scene.quota.pay(scene.produce(), 0)
    assert scene.muted_s[2:] == pytest.approx([1.0])


def test_a_principal_in_debt_is_refused_only_where_it_owes_a_lot() -> None:
    scene = Scene(*BYTES)
    scene.quota.pay(scene.produce(), int(100 * DEBT_MAX_S))
    assert scene.code() is None
    scene.quota.pay(scene.produce(), 1000)
    assert scene.code() == ErrorCode.NOT_ENOUGH_REPLICAS
    scene.clock.advance(10_010)
    assert scene.code() is None


def test_pending_max_is_about_what_waits_and_what_comes() -> None:
    scene = Scene("pending_max = 10")
    scene.pending = 8
    assert scene.code() is None
    scene.pending = 9
    assert scene.code() == ErrorCode.POLICY_VIOLATION


def test_without_a_quota_nothing_is_counted() -> None:
    scene = Scene('bytes_per_second = "1B"', principal="User:bob")
    produce = scene.produce()
    scene.quota.pay(produce, 10_000)
    assert (scene.code(), produce.throttle_time_ms, scene.muted_s) == (None, 0, [])
