"""Quotas of Kafka clients, on a broker: what is slowed down, what is refused, and who does not notice."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from kafkawire.client.address import parse_servers
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages import cluster, produce
from proxy.kafka.produce import quotas
from tests.integration.kafka.conftest import CLOCK
from tests.integration.proxy.child import Child
from tests.integration.proxy.conftest import Proxy
from tests.integration.proxy.test_corners import access_of
from tests.integration.proxy.wire_client import WireClient
from tests.unit.mq.kafka.batches import NO_PRODUCER, batch_of, plain

Connect = Callable[..., WireClient]
LATER = {"delay_ms": b"3600000"}
SASL_AUTHENTICATION_FAILED = 58
LARGE = {**LATER, "filler": b"x" * 1000}


@pytest.fixture
def limited(proxy: Proxy) -> Proxy:
    proxy.make_topic(1)
    proxy.make_buffer()
    return proxy


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def connect(proxy: Proxy, user: str = "", password: str = "") -> WireClient:
            client = stack.enter_context(closing(WireClient(proxy.address)))
            if user:
                log_in(client, user, password or f"{user}-secret")
            return client

        yield connect


def log_in(client: WireClient, user: str, password: str) -> int:
    """The error code."""
    handshake = cluster.SaslHandshakeRequest("PLAIN")
    assert client.ask(handshake, 1, cluster.SaslHandshakeResponse).error_code == ErrorCode.NONE
    login = cluster.SaslAuthenticateRequest(f"\0{user}\0{password}".encode())
    return client.ask(login, 1, cluster.SaslAuthenticateResponse).error_code


def sent(client: WireClient, proxy: Proxy, *headers: dict[str, bytes]) -> produce.ProduceResponse:
    """A batch of a record for each."""
    records = batch_of([plain(number, **some) for number, some in enumerate(headers)], **NO_PRODUCER)
    topics = [produce.ProduceTopic(proxy.place.topic, [produce.ProducePartition(0, records)])]
    request = produce.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
    return client.ask(request, 11, produce.ProduceResponse)


def result_of(answer: produce.ProduceResponse) -> produce.ProducedPartition:
    return answer.responses[0].partition_responses[0]


def is_answered(client: WireClient) -> None:
    client.ask(cluster.ApiVersionsRequest("test", "1"), 3, cluster.ApiVersionsResponse)


def test_what_is_over_the_quota_is_taken_and_the_connection_is_not_read_for_as_long_as_the_answer_has(
    limited: Proxy, connect: Connect
) -> None:
    limited.limit('bytes_per_second = "300B"', 'bytes_burst = "1B"')
    with limited.open(limited.registry):
        client, other = connect(limited), connect(limited)
        begun_s = CLOCK.monotonic_s()
        answer = sent(client, limited, LARGE)
        assert result_of(answer).error_code == ErrorCode.NONE
        assert 2000 < answer.throttle_time_ms < 5000
        ends_s = begun_s + answer.throttle_time_ms / 1000  # or later: the pause has begun since
        is_answered(other)
        assert CLOCK.monotonic_s() < ends_s
        is_answered(client)
        assert CLOCK.monotonic_s() > ends_s
        assert sent(client, limited, {}).throttle_time_ms == 0
    assert limited.count("delayline_quota_muted_seconds_total") == pytest.approx(answer.throttle_time_ms / 1000, 0.01)


def test_the_pause_for_the_delayed_part_of_a_batch_outlasts_the_answer_of_the_broker(
    limited: Proxy, connect: Connect
) -> None:
    limited.limit('bytes_per_second = "1KiB"', 'bytes_burst = "1B"')
    with limited.open(limited.registry):
        answer = sent(connect(limited), limited, {}, LARGE, {})
        assert result_of(answer).error_code == ErrorCode.NONE
        assert answer.throttle_time_ms > 500


def test_within_the_quota_nothing_is_slowed_down_and_only_delayed_records_count(
    limited: Proxy, connect: Connect
) -> None:
    limited.limit('bytes_per_second = "1MiB"', "requests_per_second = 1", "requests_burst = 3")
    with limited.open(limited.registry):
        client = connect(limited)
        assert {sent(client, limited, {}).throttle_time_ms for _ in range(20)} == {0}
        assert limited.count("delayline_quota_requests_total") == 0
        assert [sent(client, limited, LATER).throttle_time_ms > 0 for _ in range(3)] == [False, False, True]
        assert limited.count("delayline_quota_requests_total") == 3
        after_its_length = len(batch_of([plain(0, **LATER)], **NO_PRODUCER)) - 12
        assert limited.count("delayline_quota_bytes_total") == 3 * after_its_length


def test_a_throttled_principal_slows_no_other_and_is_known_by_its_login(limited: Proxy, connect: Connect) -> None:
    ledger = limited.limit('bytes_per_second = "300B"', 'bytes_burst = "1B"', principals="User:alice").kafka
    servers = parse_servers(limited.place.kafka.sasl_servers)
    with limited.open(limited.registry, bootstrap=servers, access=access_of("bob")):
        alice, bob = connect(limited, "alice"), connect(limited, "bob")
        throttled, at_s = sent(alice, limited, LARGE).throttle_time_ms, CLOCK.monotonic_s()
        assert throttled > 500
        assert {sent(bob, limited, LARGE).throttle_time_ms for _ in range(5)} == {0}
        assert CLOCK.monotonic_s() - at_s < throttled / 1000
        assert [account.principal for account, _ in ledger.accounts()] == ["User:alice"]


def test_a_login_that_fails_makes_nobody_of_the_client(limited: Proxy, connect: Connect) -> None:
    ledger = limited.limit("requests_per_second = 1").kafka
    servers = parse_servers(limited.place.kafka.sasl_servers)
    with limited.open(limited.registry, bootstrap=servers, access=access_of("bob")):
        assert log_in(connect(limited), "alice", "wrong") == SASL_AUTHENTICATION_FAILED
        assert ledger.accounts() == []
        sent(connect(limited, "bob"), limited, LATER)
        assert [account.principal for account, _ in ledger.accounts()] == ["User:bob"]


def test_who_owes_too_much_is_refused_with_an_error_that_clients_repeat(
    limited: Proxy, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "DEBT_MAX_S", 0.2)
    limited.limit('bytes_per_second = "1KiB"', 'bytes_burst = "1B"')
    with limited.open(limited.registry):
        assert result_of(sent(connect(limited), limited, LARGE)).error_code == ErrorCode.NONE
        client = connect(limited)
        answer = sent(client, limited, LARGE)
        assert result_of(answer).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert "`bytes_per_second` of User:ANONYMOUS is used up" in (result_of(answer).error_message or "")
        assert answer.throttle_time_ms > 0
        assert result_of(sent(client, limited, LARGE)).error_code == ErrorCode.NONE  # it was not read until then
        assert limited.count("delayline_quota_refused_total") == 1


def test_a_proxy_process_reads_the_quotas_of_its_settings(limited: Proxy, connect: Connect, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[quota]]\nprincipals = ['User:ANONYMOUS']\nrequests_per_second = 1\nrequests_burst = 1\n")
    environ = {"DELAYLINE_ACCESS__RULES": str(rules), "DELAYLINE_DATA_DIR": str(tmp_path / "data")}
    with closing(Child(limited, tmp_path, environ=environ)) as child:
        child.start()
        assert sent(connect(limited), limited, LATER).throttle_time_ms > 0
        metric = 'delayline_quota_requests_total{entrance="kafka",quota="User:ANONYMOUS"} 1.0'
        assert metric in httpx.get(f"{child.url}/metrics").text
        assert child.stop() == 0


@pytest.mark.parametrize(
    ("limit", "headers", "code"),
    [
        ('horizon_max = "10m"', LATER, ErrorCode.INVALID_RECORD),
        ("times_max = 3", {"delay_every": b"1h", "delay_times": b"4"}, ErrorCode.INVALID_RECORD),
        ("times_max = 3", {"delay_every": b"1h"}, ErrorCode.INVALID_RECORD),
        ("pending_max = 5", LATER, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_a_quota_does_not_allow_is_refused_by_its_name(
    limited: Proxy, connect: Connect, limit: str, headers: dict[str, bytes], code: ErrorCode
) -> None:
    limited.limit(limit)
    limited.pending = 5
    with limited.open(limited.registry):
        refused = result_of(sent(connect(limited), limited, headers))
        assert refused.error_code == code
        assert f"the quota `{limit.split()[0]}` of User:ANONYMOUS" in (refused.error_message or "")
        assert [one.batch_index for one in refused.record_errors] == ([0] if code == ErrorCode.INVALID_RECORD else [])
        assert result_of(sent(connect(limited), limited, {})).error_code == ErrorCode.NONE
        assert limited.count("delayline_quota_refused_total") == 1
    assert limited.place.queue().offsets(limited.place.buffer, "0") == (0, 0)


def test_a_reschedule_is_bounded_like_a_send(limited: Proxy, connect: Connect) -> None:
    limited.limit('horizon_max = "10m"')
    operation = {"delay_op": b"reschedule", "delay_ref": b"order-7"}
    with limited.open(limited.registry):
        client = connect(limited)
        far, near = (sent(client, limited, {**operation, "delay_ms": ms}) for ms in (b"3600000", b"60000"))
        assert result_of(far).error_code == ErrorCode.INVALID_RECORD
        assert result_of(near).error_code == ErrorCode.NONE
