"""Answers of name servers, with our addresses in the place of brokers'. All else in them stays as it is.

    GET_ROUTEINFO_BY_TOPIC          brokerDatas[].brokerAddrs{id: address}
    GET_BROKER_CLUSTER_INFO         brokerAddrTable{name: {brokerAddrs}}
    GET_SYSTEM_TOPIC_LIST_FROM_NS   brokerAddr: any one, "" for none

Keys that are numbers are written as text, whatever was asked for: old clients read both (`fastjson`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from proxy.rocketmq.view.ports import BrokerKey
from rocketmq.errors import Malformed
from rocketmq.wire.codes import Request
from rocketmq.wire.lenient import loads_object

REWRITTEN = frozenset(
    {
        Request.GET_ROUTEINFO_BY_TOPIC,
        Request.GET_BROKER_CLUSTER_INFO,
        Request.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    }
)

Advertise = Callable[[BrokerKey, str], str | None]
"""Our address for a broker's; None where there is none, and clients must not learn of it."""


class Rewriting:
    """Of the body of one."""

    def __init__(self, body: bytes | memoryview) -> None:
        """Raises Malformed."""
        self._found = loads_object(body)
        self._tables = list(self._named())

    def addresses(self) -> dict[BrokerKey, str]:
        """Those of brokers in it. Raises Malformed."""
        return {
            BrokerKey(name, _number(key)): _text(value)
            for name, table in self._tables
            for key, value in table.items()
        }

    def rewritten(self, advertise: Advertise) -> bytes:
        """Raises Malformed."""
        for name, table in self._tables:
            ours = {key: advertise(BrokerKey(name, _number(key)), _text(value)) for key, value in table.items()}
            table.clear()
            table.update((key, address) for key, address in ours.items() if address is not None)
        return msgspec.json.encode(self._found)

    def with_any(self, address: str) -> bytes:
        """Of GET_SYSTEM_TOPIC_LIST_FROM_NS, which names a broker by its address alone."""
        return msgspec.json.encode(self._found | ({"brokerAddr": address} if self._found.get("brokerAddr") else {}))

    def _named(self) -> Iterator[tuple[str, dict[str, Any]]]:
        listed = self._found.get("brokerDatas") or []
        table = self._found.get("brokerAddrTable") or {}
        if not isinstance(listed, list) or not isinstance(table, dict):
            raise Malformed("brokers that are neither listed nor in a table")
        for one in (*listed, *table.values()):
            if not isinstance(one, dict) or not isinstance(one.get("brokerAddrs") or {}, dict):
                raise Malformed("a broker without a table of addresses")
            if addresses := one.get("brokerAddrs"):
                yield _text(one.get("brokerName")), addresses


def _number(key: str) -> int:
    if not key.isascii() or not key.isdigit() or len(key) > 18:
        raise Malformed(f"a broker id that is no number: {key[:40]!r}")
    return int(key)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed("a broker's name or address that is no text")
    return value
