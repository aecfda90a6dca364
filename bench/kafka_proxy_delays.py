"""B11: the Kafka proxy before a topic that takes delays, beside the broker itself in the same run.

Records of 1 KiB on 8 partitions from librdkafka's idempotent producer: none of them delayed, so that the proxy only
has to find that out; a tenth delayed, drawn by lot, so that it takes nearly every batch apart and writes to two
topics. What goes straight to the broker carries the same headers.
"""

from bench.on_kafka.broker import Place
from bench.on_kafka.endpoints import delayline, direct
from bench.on_kafka.laps import PACED_MB_PER_S, ROUNDS, add_latencies, add_rates, in_turns, produced_anew
from bench.on_kafka.rig import on_broker
from bench.report import Report

LAP_MB = 300
PACED_S = 5.0
DELAYED_SHARE = 0.1
NONE_DELAYED_MIN, SOME_DELAYED_MIN = 0.9, 0.6
P50_MORE_MS = 2.0


def run(scale: float) -> Report:
    """About six minutes at scale 1."""
    mb = max(4.0, LAP_MB * scale)
    report = Report(f"B11 Kafka proxy, delays: {mb:,.0f} MB of 1 KiB records per lap, 8 partitions")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns, each ratio within its round.")
    paced_s, log_bytes = max(0.5, PACED_S * scale), 3e6 * mb * (ROUNDS + 1)
    return on_broker(report, lambda servers: _measure(report, servers, mb, paced_s), log_bytes=log_bytes)


def _measure(report: Report, servers: str, mb: float, paced_s: float) -> None:
    place = Place.make(servers)
    straight = direct(servers)
    with delayline(servers, place.namespace, delayed_topics=f"{place.topic}*") as ours:
        endpoints = [straight, ours]
        none = in_turns(endpoints, lambda endpoint: produced_anew(endpoint, place, mb))
        some = in_turns(endpoints, lambda endpoint: produced_anew(endpoint, place, mb, delayed_share=DELAYED_SHARE))
        paced = in_turns(
            endpoints,
            lambda endpoint: produced_anew(
                endpoint, place, PACED_MB_PER_S * paced_s, mb_per_s=PACED_MB_PER_S, delayed_share=DELAYED_SHARE
            ),
        )
    add_rates(report, "none delayed", none, straight, ours, NONE_DELAYED_MIN)
    add_rates(report, "10 % delayed", some, straight, ours, SOME_DELAYED_MIN)
    add_latencies(report, paced, straight, ours, P50_MORE_MS, None)
