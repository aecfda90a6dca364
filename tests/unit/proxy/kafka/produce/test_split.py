"""What a connection keeps of the Produces that it has answered: nothing."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from delayline.clock import ManualClock
from delayline.schedule.rules import DEFAULT_RULES
from delayline.schedule.unheeded import UnheededNames
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.produce import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from proxy.kafka.produce.produces import UpstreamProduce
from proxy.kafka.produce.screen import Screen
from proxy.kafka.produce.split import ProduceSplitter
from proxy.kafka.produce.unnamed import Unnamed
from proxy.kafka.response_order import Turn
from tests.unit.mq.kafka.batches import batch_of, plain

VERSION = 9


class RelayDouble:
    """Takes what the split sends, in both directions."""

    def __init__(self) -> None:
        self.shipped: list[UpstreamProduce] = []
        self.answers = 0

    def join(self, _turn: Turn) -> None: ...

    def take_up(self) -> None: ...

    def release(self, _turn: Turn) -> None: ...

    def ship(self, shipment: UpstreamProduce) -> None:
        self.shipped.append(shipment)

    def answer(self, _turn: Turn, _body: Any) -> None:
        self.answers += 1


def split_before(relay: RelayDouble) -> ProduceSplitter:
    hub: Any = SimpleNamespace(
        settings=SimpleNamespace(is_delay_enabled=lambda topic: topic == "orders"),
        screen=Screen(lambda _: DEFAULT_RULES, horizon_max_ms=86_400_000),
        clock=ManualClock(0),
        view=SimpleNamespace(),
        ledger=None,
        unnamed=lambda: Unnamed(UnheededNames(CollectorRegistry()), (), lambda _: True, refuse=False),
    )
    client: Any = relay
    return ProduceSplitter(hub, client)


class Watched(bytearray):
    """Shows when it is gone, which plain bytes do not."""


def test_the_records_of_a_produce_are_free_once_it_is_answered_without_a_search_for_cycles() -> None:
    relay = RelayDouble()
    split = split_before(relay)
    records = Watched(batch_of([plain(0), plain(1)], producer_id=-1, producer_epoch=-1, base_sequence=-1))
    request = ProduceRequest(acks=-1, topic_data=[ProduceTopic("orders", [ProducePartition(0, records)])])
    gone: list[bool] = []
    weakref.finalize(records, gone.append, True)
    gc.disable()
    try:
        turn, header = Turn(ApiKey.PRODUCE, VERSION, 1), RequestHeader(ApiKey.PRODUCE, VERSION, 1)
        split.produce(turn, header, request, len(records))
        del records, request
        assert gone == []
        answer = ProduceResponse(responses=[ProducedTopic("orders", [ProducedPartition(0, 0, 5)])])
        split.answered(relay.shipped.pop(), answer)
        assert (relay.answers, gone) == (1, [True])
    finally:
        gc.enable()
