"""What each property of `mq.properties` is for. Names and values are librdkafka's, but for those that begin with
`delayline.`.

Two clients log in to the brokers: our own, which carries records, and librdkafka for everything else. Login and
encryption are understood by both; what tunes librdkafka goes to it alone; anything else is refused by name, for it
would hold for a part of the connections only.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from delayline.errors import ConfigError
from kafkawire.protocol.errors import NoToken
from kafkawire.security import kerberos
from kafkawire.security.access import OAUTHBEARER, mechanism_of
from kafkawire.security.oauth import reading
from kafkawire.security.oauth.reading import read_tokens
from kafkawire.security.oauth.tokens import Tokens
from kafkawire.security.tls import TLS
from mq.errors import QueueUnavailable

COMPRESSION = ("compression.type", "compression.codec")
"""Two names of one property; librdkafka lets the later one win, we want them to agree."""

LOGIN = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"),
        *reading.PROPERTIES,
        *kerberos.PROPERTIES,
    }
)

BOTH = TLS | LOGIN | frozenset(COMPRESSION)
"""They hold for every connection."""

KINIT = frozenset({"sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"})
"""librdkafka fills the default cache of tickets by them, and our own client uses that cache."""

_FAMILIES = (
    *("socket.", "broker.", "reconnect.backoff.", "statistics.", "queue.buffering.", "queued.", "fetch."),
    *("metadata.", "topic.metadata.", "retry.", "api.version.", "log.", "offset.store."),
)
_SINGLE = frozenset(
    {
        *("batch.num.messages", "batch.size", "linger.ms", "sticky.partitioning.linger.ms", "compression.level"),
        *("message.max.bytes", "message.copy.max.bytes", "receive.message.max.bytes", "max.partition.fetch.bytes"),
        *("max.in.flight", "max.in.flight.requests.per.connection", "message.send.max.retries", "retries"),
        *("request.timeout.ms", "connections.max.idle.ms", "coordinator.query.interval.ms"),
        *("check.crcs", "client.rack", "client.dns.lookup", "debug", "log_level", "enable.metrics.push"),
        *("auto.commit.interval.ms", "consume.callback.max.messages", "enable.random.seed"),
        *("enable.sparse.connections", "internal.termination.signal", "produce.offset.report", "queuing.strategy"),
        *("partitioner", "builtin.features", "topic.blacklist", "group.protocol.type"),
    }
)


def only_for_library(names: Iterable[str]) -> list[str]:
    """Those that librdkafka's clients alone heed: members of the group, administration, what HTTP appends."""
    return sorted(name for name in set(names) - BOTH if name in _SINGLE | KINIT or name.startswith(_FAMILIES))


def unspoken(names: Iterable[str]) -> list[str]:
    """Those that are refused."""
    known = set(names)
    return sorted(known - BOTH - set(only_for_library(known)))


def refuse_unspoken(names: Iterable[str]) -> None:
    """Raises ConfigError."""
    if refused := unspoken(names):
        raise ConfigError(
            f"mq.properties: {', '.join(refused)}: not known to Delayline's own client of Kafka; "
            "docs/configuration.md lists what is."
        )


def tokens_of(properties: Mapping[str, str]) -> Tokens | None:
    """The one source of tokens; None if no login uses them. Raises ConfigError."""
    return read_tokens(properties) if mechanism_of(properties) == OAUTHBEARER else None


def for_library(properties: Mapping[str, str], tokens: Tokens | None) -> dict[str, Any]:
    """What librdkafka is given. Tokens it has from our source, whatever the properties configure for its own.

    A client of confluent_kafka waits ten seconds for its first token, and then reports that it has none, without the
    reason: so one is there before the client is made. Raises QueueUnavailable."""
    if tokens is None:
        return {name: value for name, value in properties.items() if name not in reading.OURS}
    try:
        tokens.token()
    except NoToken as error:
        raise QueueUnavailable(str(error)) from None
    passed = {name: value for name, value in properties.items() if name not in reading.PROPERTIES}
    return {**passed, "oauth_cb": tokens.for_library}
