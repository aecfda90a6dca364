"""What can be set, as the rest of the proxy is handed it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from delayline.process.tls import TlsContext
from delayline.schedule.rules import Rules
from mq.rocketmq.naming import WireNames
from proxy.limits import Limits
from proxy.rocketmq.accounts import Account
from rocketmq.client.settings import ClientSettings
from rocketmq.wire.frames import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqProxySettings:
    """Port `port` is a name server's; `view.ports` has those behind it. `brokers` have theirs in this order, and
    others the next ones, which `kept` remembers. `client` is how the proxy itself reaches the cluster."""

    host: str
    port: int
    advertised_host: str
    brokers: tuple[str, ...]
    brokers_max: int
    broker_ids_max: int
    kept: Path
    client: ClientSettings
    wire_names: WireNames
    is_delay_enabled: Callable[[str], bool]
    rules_for: Callable[[str], Rules]
    horizon_max_ms: int
    record_bytes_max: int  # of a record that is delayed, with room for Delayline's headers
    accounts: tuple[Account, ...] = ()  # of clients, where brokers check them
    refuse_unknown: bool = False  # delay.unknown
    listener_tls: TlsContext | None = None
    frame_bytes_max: int = FRAME_BYTES_MAX
    limits: Limits = field(default_factory=Limits)
    connect_timeout_s: float = 3.0  # as clients have it
    recall_s: float = 2.5  # for the owner's decision: below the 3 s of clients
    drain_max_s: float = 15.0  # of a client that has gone
