"""Who carries the records: what the wire path does not speak is librdkafka's, and said so."""

from collections.abc import Mapping
from contextlib import closing

import pytest

from delayline.clock import SystemClock
from mq.errors import QueueUnavailable
from mq.kafka.batch.head import Codec
from mq.kafka.direct.choice import Choice, choose, unspoken
from mq.kafka.settings import KafkaSettings
from mq.kafka.wire.apis import ApiKey
from mq.kafka.wire.messages.cluster import ApiVersion, ApiVersionsResponse
from tests.unit.mq.kafka.served import VERSIONS, served

SASL = {"security.protocol": "sasl_plaintext", "sasl.username": "ann", "sasl.password": "secret"}


def chosen(path: str = "auto", versions: ApiVersionsResponse = VERSIONS, **settings: object) -> Choice:
    with served(lambda header, body: None, versions) as (host, port):
        made = KafkaSettings(bootstrap_servers=f"{host}:{port}", path=path, **settings)  # type: ignore[arg-type]
        choice = choose(made, "test", SystemClock())
        if choice.direct is not None:
            with closing(choice.direct.nodes):
                pass
        return choice


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
        ({"fetch.min.bytes": "1"}, "fetch.min.bytes"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "sasl_ssl"}, "GSSAPI"),
        ({"security.protocol": "ssl", "ssl.keystore.location": "store.p12"}, r"ssl\.keystore\.location"),
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


def test_at_least_once_is_librdkafkas() -> None:
    choice = chosen(atomic=False)
    assert (choice.path, choice.reason) == ("librdkafka", "mq.guarantee is at-least-once")


@pytest.mark.parametrize("api", [ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT])
def test_a_broker_that_is_too_old_is_librdkafkas(api: ApiKey) -> None:
    choice = chosen(versions=speaking(api, 2))
    assert choice.path == "librdkafka"
    assert api.name in choice.reason


def test_a_broker_that_does_not_answer_is_no_reason_for_either_path() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout_s=1)
    with pytest.raises(QueueUnavailable, match="what they speak"):
        choose(settings, "test", SystemClock())
