"""What the HTTP API is handed: it reaches for nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from api.access.certificates import Naming
from api.http.act_log import ActLog
from delayline.access.ledger import Ledger, Ledgers
from delayline.access.source import AccessSource
from delayline.clock import Clock
from delayline.http.guard import HttpLimits
from delayline.questions.inquiry import Owners
from delayline.questions.pending import Full
from delayline.schedule.rules import Rules
from mq.contract import Admin, Claim, Client

if TYPE_CHECKING:
    from api.access.oidc.provider import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """How the API behaves. The bounds below keep its memory and its threads finite whatever clients do."""

    namespace: str
    version: str
    rules: Rules  # levels and aliases are the same for every topic
    rules_for: Callable[[str], Rules]  # with the topic's default delay
    horizon_max_ms: int  # how far ahead a message may be due
    is_delay_enabled: Callable[[str], bool]  # asked per request: must be quick
    topics_on_first_use: bool  # the queue is ours: topics come with the first message, or are made and deleted here
    refuse_unknown: bool = False  # headers under `delay-` that are no directives (delay.unknown)
    audit_hold_max_ms: int = 86_400_000
    body_bytes_max: int = 8 << 20
    batch_messages_max: int = 1000

    requests_max: int = 1024
    """Requests taken in and not answered, with appends handed over and not yet stored: 1024 * 256 B keep a group
    commit busy; more would only wait longer."""

    in_flight_bytes_max: int = 128 << 20
    """Bodies of those requests: sixteen of the largest, or 1024 of 128 KiB. Decoded they take two or three times as
    much."""

    followers_max: int = 32
    """Open `follow=sse` requests: each holds a thread while it waits."""

    http: HttpLimits = field(default_factory=HttpLimits)
    """Bounds on connections and on what is no request yet; its `address_share_percent` counts here, too."""

    session_secret: bytes = field(default=b"", repr=False)
    """What the cookies of sessions are signed with; empty makes one up."""

    session_lifetime_ms: int = 12 * 3_600_000

    undo_ms: int = 0
    """For how long a purge, or a cancel of many, may be undone; 0: not at all."""

    client_names: Naming | None = None
    """What makes the name of a client from its certificate; None where none are asked for."""

    shows_metrics: bool = True
    """Whether /metrics is on this port, and not on one of its own."""

    keeps_acts: bool = False
    """Whether acts are stored in the topic `<namespace>.operators`."""

    hosts: Sequence[str] = ()
    """Names under which clients reach it, besides localhost and IP addresses; `*` and `?` stand for others."""

    append_timeout_s: float = 10.0
    """How long an append may take; behind it it is unknown whether the messages are stored."""

    owner_timeout_s: float = 5.0
    operation_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    heartbeat_s: float = 15.0
    """Below the idle timeouts of common proxies (60 s; some 20 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The packages behind the API.

    `readiness` returns (ready, why not) without blocking. `registry` gets the API's own metrics and is shown whole
    under /metrics.
    """

    settings: ApiSettings
    client: Client
    admin: Admin
    claim: Callable[[str], Claim]
    owners: Owners
    clock: Clock
    registry: CollectorRegistry
    readiness: Callable[[], tuple[bool, str]]
    full: Full  # asked per request: must be quick
    access: AccessSource | None = None
    """The rules and the keys; None where everybody may do everything."""
    act_log: ActLog | None = None
    provider: "Provider | None" = None
    """The identity provider whose tokens are credentials beside keys, and which may log people in."""
    quotas: Ledgers | None = None
    """What principals have used; over HTTP it counts where there is `access`, which knows them."""

    @property
    def http_ledger(self) -> Ledger | None:
        """None where no quota counts over HTTP."""
        return None if self.access is None or self.quotas is None else self.quotas.http
