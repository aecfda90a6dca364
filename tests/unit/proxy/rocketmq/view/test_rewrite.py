"""Answers of name servers, with our addresses in the place of brokers'."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rocketmq.view.ports import BrokerKey
from proxy.rocketmq.view.rewrite import Rewriting
from rocketmq.errors import Malformed
from rocketmq.wire.bodies import BrokerAddresses, QueueRange, Route, decode_cluster, decode_route, encode_route
from tests.tiers import examples

ROUTE = Route(
    (QueueRange("broker-a", 4, 4), QueueRange("broker-b", 4, 4, 4)),
    (
        BrokerAddresses("c", "broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}),
        BrokerAddresses("c", "broker-b", {0: "10.0.0.3:10911"}, has_acting_master=True),
    ),
    "broker-a:4",
)


def ours(key: BrokerKey, _: str) -> str | None:
    return None if key.id else f"proxy:{key.name}"


def test_a_route_has_our_addresses_and_is_otherwise_as_it_was() -> None:
    found = Rewriting(encode_route(ROUTE))
    assert found.addresses() == {
        BrokerKey("broker-a", 0): "10.0.0.1:10911",
        BrokerKey("broker-a", 1): "10.0.0.2:10911",
        BrokerKey("broker-b", 0): "10.0.0.3:10911",
    }
    route = decode_route(found.rewritten(ours))
    assert (route.queues, route.order_conf) == (ROUTE.queues, ROUTE.order_conf)
    assert [one.addresses for one in route.brokers] == [{0: "proxy:broker-a"}, {0: "proxy:broker-b"}]
    assert [one.has_acting_master for one in route.brokers] == [False, True]


def test_keys_without_quotes_are_read_and_written_with_them() -> None:
    cluster = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c",'
    )
    cluster += b'"zoneName":"z"}},"clusterAddrTable":{"c":["broker-a"]}}'
    rewritten = Rewriting(cluster).rewritten(ours)
    assert json.loads(rewritten)["brokerAddrTable"]["broker-a"]["zoneName"] == "z"
    assert [one.addresses for one in decode_cluster(rewritten)] == [{0: "proxy:broker-a"}]


def test_a_topic_list_names_no_broker_by_its_own_address() -> None:
    body = json.dumps({"topicList": ["a"], "brokerAddr": "10.0.0.1:10911"}).encode()
    assert json.loads(Rewriting(body).with_any("proxy:1")) == {"topicList": ["a"], "brokerAddr": "proxy:1"}
    assert json.loads(Rewriting(b'{"topicList":[]}').with_any("proxy:1")) == {"topicList": []}


BAD: list[Any] = [
    [],
    {"brokerDatas": {"a": 1}},
    {"brokerDatas": [1]},
    {"brokerDatas": [{"brokerName": "a", "brokerAddrs": ["a:1"]}]},
    {"brokerDatas": [{"brokerAddrs": {"0": "a:1"}}]},
    {"brokerAddrTable": ["a:1"]},
]
UNREAD: list[Any] = [
    {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"x": "a:1"}}]},
    {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"-1": "a:1"}}]},
    {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"0": 1}}]},
]


@pytest.mark.parametrize("body", BAD)
def test_what_may_hide_an_address_is_not_passed_on(body: Any) -> None:
    with pytest.raises(Malformed):
        Rewriting(json.dumps(body).encode())


@pytest.mark.parametrize("body", UNREAD)
def test_an_address_that_cannot_be_read_is_not_passed_on(body: Any) -> None:
    with pytest.raises(Malformed):
        Rewriting(json.dumps(body).encode()).rewritten(ours)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["brokerAddrs", "brokerName", "0", "a:1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["brokerDatas", "brokerAddrTable", "brokerAddrs", "brokerName", "0", "x"]),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON)
@settings(max_examples=examples(400))
def test_any_json_is_rewritten_or_refused(body: Any) -> None:
    with suppress(Malformed):
        found = Rewriting(json.dumps(body).encode())
        found.addresses()
        Rewriting(found.rewritten(lambda key, _: None)).addresses()
