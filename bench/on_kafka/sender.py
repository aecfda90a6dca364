"""A producer at a steady rate, in a process of its own: a tick's worth every 10 ms, due within a few seconds.

Ready when the last record is acknowledged. `directive` is the header's name where a delay is wanted.
"""

import random
import time

from confluent_kafka import Producer

from bench.on_kafka.broker import ANSWER_S, PARTITIONS, headers, values
from bench.processes.child import answer_questions, arguments, report_ready
from delayline.clock import SystemClock

TICK_S = 0.01


def main(servers: str, topic: str, count: int, per_s: int, delay_ms_min: int, delay_ms_max: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1})
    clock, dice, made = SystemClock(), random.Random(11), values()
    start_s = clock.monotonic_s()
    sent = 0
    while sent < count:
        wanted = min(count, int((clock.monotonic_s() - start_s) * per_s))
        for number in range(sent, wanted):
            delay = b"%d" % dice.randint(delay_ms_min, delay_ms_max)
            producer.produce(
                topic,
                made[number % len(made)],
                b"%08d" % number,
                number % PARTITIONS,
                headers=headers(number, ("delay-ms", delay)),
            )
        sent = wanted
        producer.poll(0)
        time.sleep(TICK_S)
    if producer.flush(ANSWER_S):
        raise RuntimeError("not acknowledged")
    report_ready()
    answer_questions()


if __name__ == "__main__":
    main(**arguments())
