"""Names, shares and codes of the RocketMQ adapter."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from delayline.errors import ConfigError
from delayline.names import Names
from delayline.records.message import Shard
from mq.errors import PartitionUnknown, QueueError, QueueUnavailable, RecordTooLarge, TopicUnknown
from mq.rocketmq import trouble
from mq.rocketmq.log_ends import LogEnds
from mq.rocketmq.naming import WireNames, place_of
from mq.rocketmq.session import run_of, writer_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.shares import share_of
from rocketmq.errors import AnswerLost, InvalidRequest, Malformed, Refused, RocketmqError, TopicMissing, Unreachable
from rocketmq.wire.bodies import Queue

NAMES = WireNames(Names("team.delay"))
SHARDS = [Shard("orders", f"a:{number}") for number in range(10)]


# --- names


@pytest.mark.parametrize(
    ("name", "wire"),
    [("team.delay.buffer.orders-1", "team%delay%buffer%orders-1"), ("orders_1", "orders_1")],
)
def test_full_stops_of_our_own_names_are_percent_signs_there(name: str, wire: str) -> None:
    assert (NAMES.out(name), NAMES.back(wire)) == (wire, name)


@pytest.mark.parametrize("name", ["a.b", "x" * 128, "a%b", "", "team.delay.buffer." + "x" * 120])
def test_what_rocketmq_could_not_call_so_is_unknown(name: str) -> None:
    with pytest.raises(TopicUnknown):
        NAMES.out(name)


@pytest.mark.parametrize(
    "wire", ["TBW102", "rmq_sys_wheel_timer", "RMQ_SYS_TRACE_TOPIC", "%RETRY%g", "c_REPLY_TOPIC"]
)
def test_rocketmqs_own_topics_are_no_users_and_take_no_messages(wire: str) -> None:
    assert not NAMES.is_users(wire)
    with pytest.raises(TopicUnknown):
        NAMES.out(wire)


def test_a_partition_is_a_queue_of_a_broker() -> None:
    assert place_of("broker-a:12", "orders") == ("broker-a", 12)


@pytest.mark.parametrize("name", ["0", "a:", ":0", "a:00", "a:-1", "a.b:0", "a:0:1", "a:٣", "a:1x"])
def test_other_names_are_no_partitions(name: str) -> None:
    with pytest.raises(PartitionUnknown):
        place_of(name, "orders")


def test_a_sessions_id_holds_the_worker_and_its_address() -> None:
    assert writer_of("ns-worker-1~3@127.0.0.1:80") == ("ns-worker-1", "127.0.0.1:80")
    assert writer_of("w~1@") == ("w", "")


# --- shares


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_every_shard_has_one_owner_and_shares_differ_by_one_at_most(count: int) -> None:
    members = [f"w{number}" for number in range(count)]
    shares = [share_of(member, members, SHARDS) for member in members]
    assert sorted(shard for share in shares for shard in share) == SHARDS
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_order_in_which_members_are_listed_does_not_matter() -> None:
    assert share_of("b", ["a", "b", "c"], SHARDS) == share_of("b", ["c", "b", "a"], reversed(SHARDS))


def test_most_shards_stay_where_they_are_when_a_member_goes() -> None:
    before = share_of("a", ["a", "b", "c"], SHARDS)
    after = share_of("a", ["a", "b"], SHARDS)
    assert len(before - after) <= 1


# --- codes


@pytest.mark.parametrize(
    ("error", "busy", "refused", "of_record", "kind"),
    [
        (Refused(1, "", ""), False, False, False, QueueUnavailable),
        (Refused(1, "in-sync replicas not enough", ""), True, False, False, QueueUnavailable),
        (Refused(2, "", ""), True, False, False, QueueUnavailable),
        (Refused(13, "", ""), False, True, True, RecordTooLarge),
        (Refused(14, "", ""), True, False, False, QueueUnavailable),
        (Refused(16, "", ""), False, True, False, QueueUnavailable),
        (TopicMissing(17, "", ""), False, True, False, TopicUnknown),
        (Refused(29, "", ""), False, True, False, PartitionUnknown),
        (InvalidRequest(""), False, True, True, RecordTooLarge),
        (AnswerLost(""), False, False, False, QueueUnavailable),
        (Malformed(""), False, False, False, QueueUnavailable),
    ],
)
def test_codes_are_distinguished(
    error: RocketmqError, busy: bool, refused: bool, of_record: bool, kind: type[QueueError]
) -> None:
    found = trouble.is_busy(error), trouble.is_refused(error), trouble.is_of_record(error)
    assert (*found, type(trouble.queue_error(error, "x"))) == (busy, refused, of_record, kind)


@pytest.mark.parametrize("error", [Refused(1, "", ""), AnswerLost(""), Malformed("")])
def test_what_may_have_been_stored_is_not_taken_for_refused(error: RocketmqError) -> None:
    assert not trouble.is_not_stored(error)
    assert trouble.is_not_stored(Unreachable(""))


# --- what a broker has lost


def test_an_offset_that_is_given_again_is_reported_with_what_is_gone() -> None:
    ends, queue = LogEnds(), Queue("orders", "a", 0)
    ends.stored(queue, 7, records=3)
    ends.stored(queue, 10)
    ends.stored(queue._replace(queue_id=1), 0)
    with capture_logs() as lines:
        ends.stored(queue, 11)
        ends.stored(queue, 8, records=2)
        ends.stored(queue, 10)
    assert [(line["event"], line["queue"], line["records"]) for line in lines] == [
        ("a broker has lost the end of its log: what it acknowledged last is gone", 0, 4)
    ]


@pytest.mark.parametrize(
    ("configuration", "run"),
    [({}, b"5"), ({"enableControllerMode": "false"}, b"5"), ({"enableControllerMode": "true"}, b"5 3")],
)
def test_each_election_begins_another_run_of_a_broker(configuration: dict[str, str], run: bytes) -> None:
    admin = SimpleNamespace(
        runtime=lambda _: {"bootTimestamp": "5"}, configuration=lambda _: configuration, master_epoch=lambda _: 3
    )
    client: Any = SimpleNamespace(admin=admin)
    assert run_of(client, "a") == run


# --- settings


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name_servers": " ; "}, "mq.bootstrap_servers"),
        ({"properties": {"sasl.mechanism": "PLAIN"}}, "sasl.mechanism"),
        ({"properties": {"access_key": "a"}}, "go together"),
        ({"namespace": "a b"}, "namespace"),
        ({"properties": {"security.protocol": "sasl_ssl"}}, "plaintext or ssl"),
        ({"properties": {"ssl.ca.location": "/ca.pem"}}, "no effect without security.protocol"),
        ({"properties": {"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"}}, "ssl.ca.location"),
    ],
)
def test_refused_settings_name_themselves(changed: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        replace(RocketmqSettings(name_servers="a:1"), **changed)


def test_connections_are_encrypted_where_that_is_set_with_an_account_or_without() -> None:
    plain, encrypted = (
        RocketmqSettings(name_servers="a:1", properties={"access_key": "a", "secret_key": "s", **more}).client()
        for more in ({}, {"security.protocol": "SSL"})
    )
    assert (plain.tls, plain.credentials) == (None, encrypted.credentials)
    assert encrypted.tls is not None
    assert encrypted.tls.check_hostname


def test_name_servers_are_separated_as_in_rocketmqs_own_settings_too() -> None:
    assert RocketmqSettings(name_servers="a:1; b:2,c:3").servers == ("a:1", "b:2", "c:3")
