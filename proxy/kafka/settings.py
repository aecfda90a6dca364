"""What can be set, as the rest of the proxy is handed it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from delayline.names import Names
from delayline.process.tls import TlsContext
from delayline.schedule.rules import Rules
from kafkawire.client.address import Address
from kafkawire.protocol.frames import FRAME_BYTES_MAX
from proxy.kafka.access import Access
from proxy.kafka.limits import KafkaLimits
from proxy.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Port `port` is for bootstrapping; node n has port + 1 + n - node_id_base, for `nodes_max` nodes."""

    host: str
    port: int
    advertised_host: str
    bootstrap: tuple[Address, ...]
    access: Access
    names: Names
    is_delay_enabled: Callable[[str], bool]
    rules_for: Callable[[str], Rules]
    horizon_max_ms: int
    refuse_unknown: bool = False  # delay.unknown
    node_id_base: int = 0
    nodes_max: int = 16
    listener_tls: TlsContext | None = None
    frame_bytes_max: int = FRAME_BYTES_MAX
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 10.0  # of the proxy's own requests
    append_s: float = 10.0  # how long a write to a buffer is repeated: below the 30 s of clients
    limits: Limits = field(default_factory=Limits)
    kafka_limits: KafkaLimits = field(default_factory=KafkaLimits)
    drain_max_s: float = 15.0  # of a client that has gone; above append_s
