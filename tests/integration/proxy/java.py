"""Kafka's own command line tools, from the jars of the test broker."""

import subprocess
from collections.abc import Sequence

from tests.brokers.distribution import fetch
from tests.brokers.kafka import HERE, QUICK_START, SMALL_HEAP

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TIMEOUT_S = 60.0


def java(tool: str, arguments: Sequence[str], text: str = "") -> str:
    """What the tool prints; it is told `text`."""
    command = ["java", *SMALL_HEAP, *QUICK_START, f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"]
    command += ["-cp", f"{fetch()}/*", tool, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
