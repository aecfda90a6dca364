"""Kafka's own tools, which use the Java client, through the proxy."""

import pytest

from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.java import CONSOLE_CONSUMER, CONSOLE_PRODUCER, PRODUCER_PERFORMANCE, java


def test_the_console_producer_delays_and_the_console_consumer_reads(opened: Proxy) -> None:
    opened.make_topic(1)
    lines = [f"delay:1h,n:{n}\tk{n}\t{n}" if n % 3 == 1 else f"n:{n}\tk{n}\t{n}" for n in range(30)]
    formats = ["parse.headers=true", "parse.key=true"]
    arguments = ["--bootstrap-server", opened.address, "--topic", opened.place.topic]
    arguments += [word for one in formats for word in ("--reader-property", one)]
    java(CONSOLE_PRODUCER, arguments, "\n".join(lines) + "\n")
    limits = ["--from-beginning", "--max-messages", "20", "--timeout-ms", "20000"]
    read = java(CONSOLE_CONSUMER, ["--bootstrap-server", opened.address, "--topic", opened.place.topic, *limits])
    assert [int(line) for line in read.split()] == [n for n in range(30) if n % 3 != 1]
    found = consumed(opened.place.kafka.bootstrap_servers, opened.place.buffer, 10)
    assert [(int(one.value()), one.key()) for one in found] == [(n, b"k%d" % n) for n in range(30) if n % 3 == 1]
    assert found[0].headers() == [("delay", b"1h"), ("n", b"1")]


@pytest.mark.thorough
def test_transactions_of_the_java_client_pass(opened: Proxy) -> None:
    opened.make_topic(2)
    arguments = ["--bootstrap-server", opened.address, "--topic", opened.place.topic, "--num-records", "3000"]
    arguments += ["--record-size", "100", "--throughput", "-1", "--transaction-duration-ms", "100"]
    assert "3000 records sent" in java(PRODUCER_PERFORMANCE, arguments)
    assert len(consumed(opened.address, opened.place.topic, 3000)) == 3000
