"""What the data path speaks: anything else that configuration or brokers ask for is refused, by its name."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import NamedTuple

from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.process import logs
from kafkawire.batch.head import Codec
from kafkawire.client.address import parse_servers
from kafkawire.client.fetching import FETCH_VERSION
from kafkawire.client.metadata import COORDINATOR_VERSIONS, METADATA_VERSIONS, Nodes
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import AnswerLost, NotAuthenticated, PeerError, Unreachable, UnsupportedVersion
from kafkawire.security.access import read_access
from mq.errors import QueueUnavailable
from mq.kafka.data_path.exchange import SPOKEN
from mq.kafka.properties import COMPRESSION
from mq.kafka.settings import KafkaSettings

CODECS = ", ".join(codec.name.lower() for codec in Codec)

NEEDED = {
    ApiKey.METADATA: METADATA_VERSIONS,
    ApiKey.FIND_COORDINATOR: COORDINATOR_VERSIONS,
    ApiKey.FETCH: (FETCH_VERSION, FETCH_VERSION),
    **{one.api: (one.explicit[0], one.implicit[1]) for one in SPOKEN.values()},
}
"""Oldest and newest versions that are spoken, by API. Brokers 3.0 and later know one of each."""

ASKED_AT_ONCE = 16
"""Nodes: one that is not there takes as long as a request may."""

log = logs.get(__name__)


class Direct(NamedTuple):
    """What the data path is made of."""

    nodes: Nodes
    codec: Codec


def direct(settings: KafkaSettings, client_id: str, clock: Clock) -> Direct:
    """Connects to nothing yet. Raises ConfigError for what is not spoken."""
    _refuse_what_is_not_spoken(settings.properties)
    servers, access = parse_servers(settings.bootstrap_servers), read_access(settings.properties, settings.tokens)
    nodes = Nodes(servers, access, client_id, settings.request_timeout_s, clock)
    return Direct(nodes, _codec(settings.properties))


def _refuse_what_is_not_spoken(properties: Mapping[str, str]) -> None:
    """Raises ConfigError; KafkaSettings has refused what it is unknown, `read_access` does for the values."""
    if len({properties[name] for name in COMPRESSION if name in properties}) > 1:
        raise ConfigError(f"mq.properties: {' and '.join(COMPRESSION)} contradict each other.")


def _codec(properties: Mapping[str, str]) -> Codec:
    """Raises ConfigError."""
    name = next((properties[key] for key in COMPRESSION if key in properties), "none")
    try:
        return Codec[name.upper()]
    except KeyError:
        raise ConfigError(f"mq.properties: compression.type is one of {CODECS}, not {name}.") from None


def check_brokers(nodes: Nodes) -> None:
    """Asks every node what it speaks, for each leads and coordinates something; one that does not answer is let pass.
    Raises QueueUnavailable for one that is too old, and where none answers."""
    try:
        _ask(nodes)
    except UnsupportedVersion as error:
        raise QueueUnavailable(f"{error}; Delayline needs brokers from Kafka 3.0 on") from error
    except PeerError as error:
        raise QueueUnavailable(f"asking the brokers what they speak: {error}") from error


def _ask(nodes: Nodes) -> None:
    """Raises UnsupportedVersion for one that is too old, and other errors where none answers."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        silent = list(pool.map(partial(_ask_one, nodes), nodes.ids()))
    if None not in silent:
        raise next(filter(None, silent), Unreachable("the cluster names no node"))


def _ask_one(nodes: Nodes, node: int) -> PeerError | None:
    """Why it does not answer. Raises UnsupportedVersion."""
    try:
        connection = nodes.connect(node)
    except (Unreachable, NotAuthenticated, AnswerLost) as error:
        log.info("a broker does not report its versions", node=node, detail=str(error))
        return error
    with closing(connection):
        for api, (oldest, newest) in NEEDED.items():
            connection.version(api, newest, oldest)
    return None
