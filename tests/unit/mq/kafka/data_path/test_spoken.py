"""What is not spoken is refused, and named."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

import pytest

from delayline.clock import SystemClock
from delayline.errors import ConfigError
from kafkawire.batch.head import Codec
from kafkawire.client.address import Address
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import Message, RequestHeader
from kafkawire.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from kafkawire.protocol.messages.metadata import MetadataBroker, MetadataResponse
from kafkawire.security.oauth.local import FILE
from mq.errors import QueueUnavailable
from mq.kafka.data_path.spoken import Direct, check_brokers, direct
from mq.kafka.planned.buffer_ranges import read_buffer
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.unit.mq.kafka.served import VERSIONS, Handler, served

DAMAGED = struct.pack(">iihi", 10, 1, 0, -1)
"""A length that is none, instead of APIs and their versions."""

DOWN = Address("127.0.0.1", 1)

SASL = {"security.protocol": "sasl_plaintext", "sasl.username": "ann", "sasl.password": "secret"}


@contextmanager
def cluster(*versions: ApiVersionsResponse | bytes | None) -> Iterator[list[Address]]:
    """Nodes that answer so when they are asked what they speak; None is one that is down."""
    there: list[Address] = []

    def answering(shown: ApiVersionsResponse | bytes) -> Handler:
        def answer(header: RequestHeader, body: memoryview) -> Message | bytes | None:
            if header.api_key == ApiKey.API_VERSIONS:
                return shown
            return MetadataResponse(brokers=[MetadataBroker(node, *at) for node, at in enumerate(there)])

        return answer

    with ExitStack() as stack:
        for shown in versions:
            there.append(DOWN if shown is None else stack.enter_context(served(answering(shown), versions=None)))
        yield there


def checked(there: list[Address], request_timeout_s: float = 10) -> None:
    """Beginning with the first node."""
    host, port = there[0]
    settings = KafkaSettings(bootstrap_servers=f"{host}:{port}", request_timeout_s=request_timeout_s)
    with closing(direct(settings, "test", SystemClock()).nodes) as nodes:
        check_brokers(nodes)


def made(**properties: str) -> Direct:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", properties=properties)
    return direct(settings, "test", SystemClock())


def speaking(api: ApiKey, newest: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        0, [ApiVersion(one.api_key, 0, newest if one.api_key == api else 14) for one in VERSIONS.api_keys]
    )


@pytest.mark.parametrize("name", ["compression.type", "compression.codec"])
def test_compression_is_understood_by_both_of_its_names(name: str) -> None:
    assert made(**{name: "zstd"}).codec is Codec.ZSTD
    assert made().codec is Codec.NONE


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"security.protocol": "ssl", "ssl.certificate.location": "/nowhere"}, r"ssl\.certificate\.location"),
        ({"compression.type": "brotli"}, r"compression\.type is one of .*, not brotli"),
        ({"compression.type": "zstd", "compression.codec": "gzip"}, "contradict"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "MAGIC"}, r"sasl\.mechanism"),
        ({"security.protocol": "telepathy"}, r"security\.protocol"),
    ],
)
def test_what_is_not_spoken_is_refused_by_its_name(properties: Mapping[str, str], why: str) -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", properties=properties)
    with pytest.raises(ConfigError, match=rf"^mq\.properties: .*{why}"):
        KafkaQueue(settings, SystemClock())


def test_a_reader_of_buffers_refuses_it_as_well() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", properties={"compression.type": "brotli"})
    with pytest.raises(ConfigError, match="brotli"):
        list(read_buffer(settings, SystemClock(), "orders", 0, 0, 1))


def test_passwords_are_spoken() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        made(**SASL, **{"sasl.mechanism": mechanism})


def test_tokens_are_spoken() -> None:
    made(**{"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", FILE: "/token"})


def test_what_tunes_the_library_goes_to_it_alone() -> None:
    made(**{"fetch.min.bytes": "1", "socket.timeout.ms": "5000", "linger.ms": "3"})


@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT])
def test_a_broker_that_is_too_old_is_refused_with_what_it_lacks(api: ApiKey) -> None:
    with cluster(speaking(api, 2)) as there, pytest.raises(QueueUnavailable, match=f"{api.name} .*Kafka 3.0"):
        checked(there)


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_one_broker_of_several_that_is_too_old_is_named(api: ApiKey) -> None:
    with cluster(VERSIONS, VERSIONS, speaking(api, 2)) as there:
        named = pytest.raises(QueueUnavailable, match=f"^127.0.0.1:{there[2].port}: {api.name}")
        with named:
            checked(there)


@pytest.mark.parametrize("answer", [None, DAMAGED, ApiVersionsResponse(-1)])
def test_one_broker_of_several_that_does_not_report_its_versions_is_let_pass(
    answer: ApiVersionsResponse | bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(VERSIONS, answer, VERSIONS) as there:
        checked(there)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "report its versions" in line]
    assert "node=1 " in f"{line} "


def test_brokers_that_all_do_not_report_their_versions_are_waited_for() -> None:
    with cluster(VERSIONS, None, None) as there:
        bootstrap = there.pop(0)  # it answers, and is none of them
        with pytest.raises(QueueUnavailable, match="what they speak"):
            checked([bootstrap])


def test_so_is_one_whose_answer_about_versions_is_damaged() -> None:
    with cluster(DAMAGED) as there, pytest.raises(QueueUnavailable, match="what they speak"):
        checked(there)


def test_so_is_one_that_does_not_answer() -> None:
    with pytest.raises(QueueUnavailable, match="what they speak"):
        checked([DOWN], 1)
