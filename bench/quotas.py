"""What quotas cost a request, beside everything else that it costs: over HTTP (`api.http.metering` and the reading of
a body) and in the Kafka proxy. The fastest of several rounds counts.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from api.http import metering
from api.http.caller import CALLER
from bench.report import Report, Target, measured
from delayline.access.ledger import Account, Ledgers
from delayline.access.rules import parse_rules
from delayline.clock import SystemClock
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.produce import ProduceRequest
from proxy.kafka.produce.produces import ClientProduce
from proxy.kafka.produce.quotas import ConnectionQuota
from proxy.kafka.response_order import Turn

TIMES = 100_000
ROUNDS = 7
COST_US_MAX = 2.0
_RULE = '[[rule]]\nprincipals = ["*"]\ntopics = ["*"]\nacts = ["send"]\n'
_QUOTA = '[[quota]]\nprincipals = ["ann"]\nbytes_per_second = "1TiB"\nrequests_per_second = 1000000000\n'
_BODY_BYTES = 300


def run(scale: float) -> Report:
    """About five seconds."""
    report = Report("Quotas: what they cost a request")
    times = max(int(TIMES * scale), 1000)
    limited, empty = _ledgers(_RULE + _QUOTA), _ledgers(_RULE)
    http: dict[str, Any] = {"no file of rules": None, "no quota in the file": empty.http, "a quota": limited.http}
    for name, ledger in http.items():
        target = Target("<", COST_US_MAX) if ledger is limited.http else None
        report.add(f"HTTP, {name}", _cost_us(_request(ledger), times), "us/request", target)
    for name, kafka in {"no file of rules": None, "a quota": limited.kafka}.items():
        report.add(f"Kafka, {name}", _cost_us(_produce(kafka), times), "us/Produce")
    return report


def _ledgers(text: str) -> Ledgers:
    rules = parse_rules(text, "rules.toml")
    return Ledgers(lambda: rules, SystemClock(), CollectorRegistry())


def _request(ledger: Any) -> Callable[[], None]:
    scope: dict[str, Any] = {metering.LEDGER: ledger, CALLER: SimpleNamespace(principal="ann")}

    def request() -> None:
        metering.begin(scope)
        account: Account | None = scope.get(metering.ACCOUNT)
        if account is not None:
            account.check_bytes()
            account.pay_bytes(_BODY_BYTES)

    return request


def _produce(ledger: Any) -> Callable[[], None]:
    """With delayed records for one partition; what the quota needs not is made once."""
    hub: Any = SimpleNamespace(ledger=ledger)
    client: Any = SimpleNamespace(principal="ann")
    quota, turn = ConnectionQuota(hub, client), Turn(ApiKey.PRODUCE, 9, 1)
    made = ClientProduce(turn, turn, RequestHeader(ApiKey.PRODUCE, 9, 1), ProduceRequest(), 0, missing=1)

    def produce() -> None:
        made.account, made.is_paid = quota.account(), False
        quota.pay(made, _BODY_BYTES)

    return produce


def _cost_us(step: Callable[[], None], times: int) -> float:
    return min(_round_us(step, times) for _ in range(ROUNDS))


def _round_us(step: Callable[[], None], times: int) -> float:
    with measured() as lap:
        for _ in range(times):
            step()
    return lap.cpu_s / times * 1e6
