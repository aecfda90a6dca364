"""Which of the two data paths a worker takes.

`mq.path` is `auto`, `wire` or `librdkafka`. The wire is spoken where configuration and brokers ask for nothing that
it does not know; what it does not know is said in one line, and in the mode `auto` librdkafka then takes the path.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import NamedTuple

from delayline import logs
from delayline.clock import Clock
from delayline.errors import ConfigError
from mq.errors import QueueUnavailable
from mq.kafka.access import read_access
from mq.kafka.address import parse_servers
from mq.kafka.batch.head import Codec
from mq.kafka.direct.exchange import SPOKEN
from mq.kafka.direct.fetching import FETCH_VERSION
from mq.kafka.direct.nodes import COORDINATOR_VERSIONS, METADATA_VERSIONS, Nodes
from mq.kafka.properties import COMPRESSION
from mq.kafka.settings import KafkaSettings
from mq.kafka.wire.apis import ApiKey
from mq.kafka.wire.errors import AnswerLost, NotAuthenticated, PeerError, Unreachable, UnsupportedVersion

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
    """What the wire path is made of."""

    nodes: Nodes
    codec: Codec


class Choice(NamedTuple):
    """`direct` is None where librdkafka takes the path; `reason` says why, empty where it was told to."""

    direct: Direct | None
    reason: str = ""

    @property
    def path(self) -> str:
        return "librdkafka" if self.direct is None else "wire"


def choose(settings: KafkaSettings, client_id: str, clock: Clock) -> Choice:
    """Asks the brokers what they speak. Raises QueueUnavailable where none answers, or where the wire is wanted and
    cannot be spoken."""
    if settings.path == "librdkafka":
        return Choice(None)
    reason = unspoken(settings)
    if reason is None:
        nodes = _nodes(settings, client_id, clock)
        try:
            _ask(nodes)
            return Choice(Direct(nodes, _codec(settings.properties)))
        except UnsupportedVersion as error:
            nodes.close()
            reason = str(error)
        except PeerError as error:
            nodes.close()
            raise QueueUnavailable(f"asking the brokers what they speak: {error}") from error
    if settings.path == "wire":
        raise QueueUnavailable(f"mq.path is wire, which cannot be spoken here: {reason}")
    return Choice(None, reason)


def nodes_beside(settings: KafkaSettings, clock: Clock) -> Nodes | None:
    """For questions that librdkafka does not ask, whichever path the data take; None where the configuration has what
    is not spoken. Asks nobody anything yet."""
    return None if _foreign(settings) else _nodes(settings, f"{settings.namespace}-beside", clock)


def unspoken(settings: KafkaSettings) -> str | None:
    """What the configuration asks for and the wire path does not know; None where there is nothing."""
    return _foreign(settings) if settings.atomic else "mq.guarantee is at-least-once"


def _foreign(settings: KafkaSettings) -> str | None:
    properties = settings.properties
    if len({properties[name] for name in COMPRESSION if name in properties}) > 1:
        return f"{' and '.join(COMPRESSION)} contradict each other"
    try:
        _codec(properties)
        read_access(properties, settings.tokens)
        parse_servers(settings.bootstrap_servers)
    except ConfigError as error:
        return str(error)
    return None


def _codec(properties: Mapping[str, str]) -> Codec:
    """Raises ConfigError."""
    name = next((properties[key] for key in COMPRESSION if key in properties), "none")
    try:
        return Codec[name.upper()]
    except KeyError:
        raise ConfigError(f"compression.type is {name}") from None


def _nodes(settings: KafkaSettings, client_id: str, clock: Clock) -> Nodes:
    servers, access = parse_servers(settings.bootstrap_servers), read_access(settings.properties, settings.tokens)
    return Nodes(servers, access, client_id, settings.request_timeout_s, clock)


def _ask(nodes: Nodes) -> None:
    """Every node, for each leads and coordinates something. Raises UnsupportedVersion for one that is too old, and
    other errors where none answers; one that does not is no reason against the wire."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        silent = list(pool.map(partial(_ask_one, nodes), nodes.ids()))
    if None not in silent:
        raise next(filter(None, silent), Unreachable("the cluster names no node"))


def _ask_one(nodes: Nodes, node: int) -> PeerError | None:
    """Why it does not answer. Raises UnsupportedVersion."""
    try:
        connection = nodes.connect(node)
    except (Unreachable, NotAuthenticated, AnswerLost) as error:
        log.info("a broker does not say what it speaks", node=node, detail=str(error))
        return error
    with closing(connection):
        for api, (oldest, newest) in NEEDED.items():
            connection.version(api, newest, oldest)
    return None
