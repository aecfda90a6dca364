"""Who carries the records: what the wire path does not speak is librdkafka's, and said so."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from delayline.clock import SystemClock
from mq.errors import QueueUnavailable
from mq.kafka.address import Address
from mq.kafka.batch.head import Codec
from mq.kafka.direct.choice import Choice, choose, unspoken
from mq.kafka.oauth.local import FILE
from mq.kafka.settings import KafkaSettings
from mq.kafka.wire.apis import ApiKey
from mq.kafka.wire.message import Message, RequestHeader
from mq.kafka.wire.messages.cluster import ApiVersion, ApiVersionsResponse
from mq.kafka.wire.messages.metadata import MetadataBroker, MetadataResponse
from tests.unit.mq.kafka.served import VERSIONS, Handler, served

DAMAGED = struct.pack(">iihi", 10, 1, 0, -1)
"""A length that is none, instead of APIs and their versions."""

DOWN = Address("127.0.0.1", 1)

SASL = {"security.protocol": "sasl_plaintext", "sasl.username": "ann", "sasl.password": "secret"}


@contextmanager
def cluster(*versions: ApiVersionsResponse | bytes | None) -> Iterator[list[Address]]:
    """Nodes that answer so when they are asked what they speak; None is one that is down."""
    there: list[Address] = []

    def answering(said: ApiVersionsResponse | bytes) -> Handler:
        def answer(header: RequestHeader, body: memoryview) -> Message | bytes | None:
            if header.api_key == ApiKey.API_VERSIONS:
                return said
            return MetadataResponse(brokers=[MetadataBroker(node, *at) for node, at in enumerate(there)])

        return answer

    with ExitStack() as stack:
        for said in versions:
            there.append(DOWN if said is None else stack.enter_context(served(answering(said), versions=None)))
        yield there


def chosen_at(there: list[Address], path: str = "auto", **settings: object) -> Choice:
    """Beginning with the first node."""
    host, port = there[0]
    made = KafkaSettings(bootstrap_servers=f"{host}:{port}", path=path, **settings)  # type: ignore[arg-type]
    choice = choose(made, "test", SystemClock())
    if choice.direct is not None:
        choice.direct.nodes.close()
    return choice


def chosen(path: str = "auto", versions: ApiVersionsResponse = VERSIONS, **settings: object) -> Choice:
    with cluster(versions) as there:
        return chosen_at(there, path, **settings)


def speaking(api: ApiKey, newest: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        0, [ApiVersion(one.api_key, 0, newest if one.api_key == api else 14) for one in VERSIONS.api_keys]
    )


def test_nothing_special_goes_over_the_wire() -> None:
    choice = chosen()
    assert (choice.path, choice.reason) == ("wire", "")


def test_who_asks_for_the_library_gets_it_without_a_question() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", path="librdkafka")
    assert choose(settings, "test", SystemClock()) == Choice(None)


@pytest.mark.parametrize("name", ["compression.type", "compression.codec"])
def test_compression_is_understood_by_both_of_its_names(name: str) -> None:
    direct = chosen(properties={name: "zstd"}).direct
    assert direct is not None
    assert direct.codec is Codec.ZSTD


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism"),
        ({"security.protocol": "ssl", "ssl.certificate.location": "/nowhere"}, r"ssl\.certificate\.location"),
        ({"compression.type": "brotli"}, "brotli"),
        ({"compression.type": "zstd", "compression.codec": "gzip"}, "contradict"),
    ],
)
def test_what_the_wire_path_does_not_know_is_librdkafkas_and_refused_where_only_the_wire_is_wanted(
    properties: Mapping[str, str], why: str
) -> None:
    choice = chosen(properties=properties)
    assert choice.path == "librdkafka"
    with pytest.raises(QueueUnavailable, match=why):
        chosen("wire", properties=properties)


def test_passwords_are_spoken() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        properties = {**SASL, "sasl.mechanism": mechanism}
        assert unspoken(KafkaSettings(bootstrap_servers="127.0.0.1:1", properties=properties)) is None


def test_tokens_are_spoken() -> None:
    properties = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", FILE: "/token"}
    assert unspoken(KafkaSettings(bootstrap_servers="127.0.0.1:1", properties=properties)) is None


def test_what_tunes_the_library_is_no_reason_against_the_wire() -> None:
    properties = {"fetch.min.bytes": "1", "socket.timeout.ms": "5000", "linger.ms": "3"}
    assert unspoken(KafkaSettings(bootstrap_servers="127.0.0.1:1", properties=properties)) is None


def test_at_least_once_is_librdkafkas() -> None:
    choice = chosen(atomic=False)
    assert (choice.path, choice.reason) == ("librdkafka", "mq.guarantee is at-least-once")


@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT])
def test_a_broker_that_is_too_old_is_librdkafkas(api: ApiKey) -> None:
    choice = chosen(versions=speaking(api, 2))
    assert choice.path == "librdkafka"
    assert api.name in choice.reason


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_one_broker_of_several_that_is_too_old_is_named(api: ApiKey) -> None:
    with cluster(VERSIONS, VERSIONS, speaking(api, 2)) as there:
        choice = chosen_at(there)
    assert choice.path == "librdkafka"
    assert choice.reason.startswith(f"127.0.0.1:{there[2].port}: {api.name}")


@pytest.mark.parametrize("answer", [None, DAMAGED, ApiVersionsResponse(-1)])
def test_one_broker_of_several_that_does_not_say_what_it_speaks_is_no_reason(
    answer: ApiVersionsResponse | bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(VERSIONS, answer, VERSIONS) as there:
        assert chosen_at(there).path == "wire"
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "what it speaks" in line]
    assert "node=1 " in f"{line} "


def test_brokers_that_all_do_not_say_what_they_speak_are_no_reason_for_either_path() -> None:
    with cluster(VERSIONS, None, None) as there:
        bootstrap = there.pop(0)  # it answers, and is none of them
        with pytest.raises(QueueUnavailable, match="what they speak"):
            chosen_at([bootstrap])


def test_an_answer_about_versions_that_is_damaged_is_no_reason_for_either_path() -> None:
    with cluster(DAMAGED) as there, pytest.raises(QueueUnavailable, match="what they speak"):
        chosen_at(there)


def test_a_broker_that_does_not_answer_is_no_reason_for_either_path() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_s=1)
    with pytest.raises(QueueUnavailable, match="what they speak"):
        choose(settings, "test", SystemClock())
