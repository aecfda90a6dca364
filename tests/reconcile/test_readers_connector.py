"""Through Spark's own Kafka connector the ledger gets the same rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delayline.buffer.outcome import AuditRow, Outcome, encode_audit, encode_low_water
from delayline.buffer.record import encode_control, encode_rules
from delayline.errors import ConfigError
from delayline.records.message import Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from reconcile.errors import CannotJudge
from reconcile.logic.plan import Range, Read
from tests.brokers.distribution import CACHE, copy_once
from tests.conftest import required
from tests.reconcile.on_kafka import CLOCK, Place, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.readers.connector import KafkaConnectorReader
    from reconcile.readers.kafka import KafkaReader

POM = Path(__file__).resolve().parents[2] / "deploy" / "spark" / "kafka-connector" / "pom.xml"
JARS = CACHE.parent / "spark-kafka" / "jars"


LOGIN = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def jars(spark: "SparkSession") -> None:
    """The session has them. Skips where they cannot be had, and fails instead where CI is set."""
    with required("connector"):
        copy_once(POM, JARS)
    for jar in JARS.glob("*.jar"):
        spark.sql(f"ADD JAR '{jar}'")


@pytest.fixture
def connector(spark: "SparkSession", jars: None, place: Place) -> "Iterator[KafkaConnectorReader]":
    from reconcile.readers.connector import KafkaConnectorReader

    opened = KafkaConnectorReader(place.settings(), CLOCK, spark)
    yield opened
    opened.close()


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: [(value is not None, value) for value in row.values()])


def fill(place: Place) -> None:
    """Every kind of record, aborted copies of some, and markers at the end."""
    bodies = [
        encode_body(None, b"no key", [(b"delay-level", b"1"), (b"same", b"1"), (b"same", b"2"), (b"none", None)]),
        encode_rules(Rules(number=1, levels_ms=(7000,))),
        encode_body(b"key", None, [(b"delay-level", b"1")]),
        encode_body(b"", b"", [(b"delay-op", b"cancel"), (b"delay-ref", b"orders.0.0.7")]),
        encode_control("pause"),
        encode_body(None, b"repeats", [(b"delay-every", b"1h"), (b"delay-id", b"own")]),
        encode_body(None, b"refused", [(b"delay-ms", b"-1")]),
    ]
    place.write(place.buffer, *bodies)
    place.write(place.buffer, bodies[0], bodies[2], partition=1)
    for outcome in ("abort_transaction", "commit_transaction"):
        producer = place.transaction()
        place.send(producer, 3)
        getattr(producer, outcome)()
    shard, outcomes = Shard(place.topic, "0"), [AuditRow(0, "a", 5, 6, Outcome.DELIVERED)]
    outcomes.append(AuditRow(1, "b", 5, 6, Outcome.SUPERSEDED, "b", "roll"))
    audit = [*encode_audit(shard, 3, 7, outcomes), encode_low_water(shard, 3, 7, 8, 9, 0), encode_body(None, b"junk")]
    place.write(f"{place.namespace}.audit", *audit)


@pytest.mark.thorough
def test_both_readers_give_the_same_rows(
    spark: "SparkSession", place: Place, reader: "KafkaReader", connector: "KafkaConnectorReader"
) -> None:
    fill(place)
    held = reader.held()
    shards = held.buffers[place.topic].shards
    reads = [Read(place.topic, shard, *planned) for shard, planned in shards.items()]

    found, others = (in_order(rows(each.accepted(spark, reads))) for each in (reader, connector))
    audits = [[rows(part) for part in each.audit(spark, held.audit)] for each in (reader, connector)]

    assert shards == {0: Range(0, 15), 1: Range(0, 2)}
    assert len(found) == 12
    assert found == others
    assert [[row["kind"] for row in audits[0][0]], len(audits[0][1])] == [["outcomes", "low_water", "malformed"], 2]
    assert audits[0] == audits[1]


def test_what_is_not_held_is_refused_and_what_is_trimmed_after_the_plan_is_an_error_of_the_read(
    spark: "SparkSession", place: Place, connector: "KafkaConnectorReader"
) -> None:
    from py4j.protocol import Py4JJavaError

    place.send(place.producer(), 6)
    planned = connector.accepted(spark, [Read(place.topic, 0, 2, 6)])
    place.trim(4)

    with pytest.raises(CannotJudge, match="begins at 4 now, 2 was to be read"):
        connector.accepted(spark, [Read(place.topic, 0, 2, 6)])
    with pytest.raises((CannotJudge, Py4JJavaError)):  # the driver may not know the class: these jars came late
        rows(planned)
    assert rows(connector.accepted(spark, [Read(place.topic, 0, 5, 5)])) == []
    assert [row["offset"] for row in rows(connector.accepted(spark, [Read(place.topic, 0, 5, 6)]))] == [5]


def test_offsets_that_the_connector_does_not_find_are_reported_as_a_loss() -> None:
    from pyspark.errors import PySparkException

    from reconcile.readers.work import translated_errors

    text = "Caused by: ...\nReason: Could not read records in offset [2, 6) for topic partition a-0\nwith"
    expected = r"was to be read: Could not read records in offset \[2, 6\) for .* a-0$"
    with pytest.raises(CannotJudge, match=expected), translated_errors():
        raise PySparkException(text)
    with pytest.raises(PySparkException, match="something else"), translated_errors():
        raise PySparkException("something else")


def test_jars_that_spark_has_not_been_given_are_named(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    from reconcile.readers import connector

    monkeypatch.setattr(connector, "JARS", {"java.lang.String": "the runtime", "no.such.Thing": "a-jar-of-things"})

    with pytest.raises(ConfigError, match=r"been given: a-jar-of-things; name them in spark\.jars"):
        connector.check_jars(spark)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
        ({"ssl.ca.location": "/ca.pem"}, {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}),
        (
            {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "al", "sasl.password": 'a"b\\c'},
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{LOGIN}.scram.ScramLoginModule required username="al" password="a\\"b\\\\c";',
            },
        ),
    ],
)
def test_properties_of_the_service_are_those_of_the_java_client(
    given: dict[str, str], expected: dict[str, str]
) -> None:
    from reconcile.readers.connector import java_properties

    assert java_properties(given) == expected


@pytest.mark.parametrize(
    "given", [{"ssl.key.location": "/key.pem"}, {"queued.min.messages": "1"}, {"sasl.mechanism": "OAUTHBEARER"}]
)
def test_properties_that_cannot_be_passed_on_are_refused(given: dict[str, str]) -> None:
    from reconcile.readers.connector import java_properties

    with pytest.raises(ConfigError, match="kafka-connector"):
        java_properties(given)
