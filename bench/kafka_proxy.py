"""B10: the Kafka proxy as a pass-through, beside the broker itself and Kroxylicious in the same run.

A topic that takes no delays; records of 1 KiB on 8 partitions, librdkafka's idempotent producer and its consumer.
Endpoints take turns, and ratios are taken within each round, as the machine's own speed comes and goes. CPU is
that of the proxy's process alone: where client, proxy and broker share few cores, throughput follows from it.
"""

from contextlib import ExitStack

from bench.on_kafka.broker import Place
from bench.on_kafka.endpoints import delayline, direct, kroxylicious
from bench.on_kafka.laps import (
    PACED_MB_PER_S,
    ROUNDS,
    add_latencies,
    add_rates,
    add_rounds_ahead,
    consumed,
    in_turns,
    produced,
    produced_anew,
)
from bench.on_kafka.rig import on_broker
from bench.report import Report
from tests.brokers.distribution import Unavailable

LAP_MB = 400
PACED_S = 5.0
PRODUCE_MIN, CONSUME_MIN = 0.9, 0.8
AHEAD_MIN = 6
P50_MORE_MS, P99_MORE_MS = 1.0, 10.0
"""Half a millisecond is what two more hops take; a whole one is still parity for people."""


def run(scale: float) -> Report:
    """About seven minutes at scale 1."""
    mb = max(4.0, LAP_MB * scale)
    report = Report(f"B10 Kafka proxy, pass-through: {mb:,.0f} MB of 1 KiB records per lap, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns, each ratio within its round.")
    paced_s, log_bytes = max(0.5, PACED_S * scale), 3e6 * mb * (ROUNDS + 1)
    return on_broker(report, lambda servers: _measure(report, servers, mb, paced_s), log_bytes=log_bytes)


def _measure(report: Report, servers: str, mb: float, paced_s: float) -> None:
    place = Place.make(servers)
    with ExitStack() as stack:
        straight = direct(servers)
        ours = stack.enter_context(delayline(servers, place.namespace, delayed_topics="none"))
        endpoints = [straight, ours]
        try:
            endpoints.append(stack.enter_context(kroxylicious(servers)))
        except Unavailable as reason:
            report.notes.append(f"No Kroxylicious beside it: {reason}.")
        produce = in_turns(endpoints, lambda endpoint: produced_anew(endpoint, place, mb))
        produced(straight, place.topic, mb)
        consume = in_turns(endpoints, lambda endpoint: consumed(endpoint, place.topic, mb))
        paced_mb = PACED_MB_PER_S * paced_s
        paced = in_turns(
            endpoints, lambda endpoint: produced_anew(endpoint, place, paced_mb, mb_per_s=PACED_MB_PER_S)
        )
        for what, rounds, wanted in (("produce", produce, PRODUCE_MIN), ("consume", consume, CONSUME_MIN)):
            add_rates(report, what, rounds, straight, ours, wanted)
            for peer in endpoints[2:]:
                add_rounds_ahead(report, what, rounds, ours, peer, AHEAD_MIN)
        add_latencies(report, paced, straight, ours, P50_MORE_MS, P99_MORE_MS)
