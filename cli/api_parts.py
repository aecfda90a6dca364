"""What the HTTP API of a process is handed, as its settings describe it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge

from api.access.certificates import CertificateNeeded
from api.access.files import AccessFiles, RulesFile
from api.app import TOPICS_REMEMBERED, DelaylineApi, create_metrics_app
from api.http.act_log import ActLog
from api.http.act_stores import ActFile, ActStore, ActTopic
from api.http.caller import Callers, NoKeys
from api.services import ApiSettings, Services
from cli.http_limits import api_hosts, api_limits
from delayline import __version__
from delayline.access.ledger import Ledgers
from delayline.access.rules import AccessRules, read_quotas, read_rules
from delayline.clock import Clock
from delayline.config import Settings
from delayline.config.checks import KEYS
from delayline.config.oidc import Oidc
from delayline.errors import ConfigError
from delayline.names import Names
from delayline.process import logs
from delayline.process.watched import Watcher
from delayline.questions.inquiry import Owners
from delayline.questions.pending import PendingLimits
from mq.contract import Queue

if TYPE_CHECKING:
    from api.access.oidc.provider import Provider

log = logs.get(__name__)

NOT_ROCKETMQ = "quotas do not count in the RocketMQ proxy: what its clients send is not limited"


def services(
    settings: Settings,
    queue: Queue,
    owners: Owners,
    clock: Clock,
    registry: CollectorRegistry,
    readiness: Callable[[], tuple[bool, str]],
    access: AccessFiles | None,
    provider: "Provider | None",
    act_log: ActLog | None,
    quotas: Ledgers | None,
) -> Services:
    """What the HTTP API is handed."""
    return Services(
        settings=_api_settings(settings),
        client=queue,
        admin=queue,
        claim=queue.claim,
        owners=owners,
        clock=clock,
        registry=registry,
        readiness=readiness,
        full=pending_limits(settings, owners, clock).full,
        access=access,
        provider=provider,
        act_log=act_log,
        quotas=quotas,
    )


@contextmanager
def acts(settings: Settings, queue: Queue, clock: Clock, registry: CollectorRegistry) -> Iterator[ActLog | None]:
    """Where who did what is written down; None where it is not. Raises ConfigError."""
    path, stores = settings.access.act_log, list[ActStore]()
    with ExitStack() as stack:
        if path is not None:
            stores.append(stack.enter_context(closing(ActFile(path))))
        if settings.keeps_acts:
            threads = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="acts"))
            stores.append(ActTopic(queue, queue, Names(settings.namespace).operators, threads))
        yield ActLog(stores, clock, registry) if stores else None


@contextmanager
def access_files(
    settings: Settings, watcher: Watcher, registry: CollectorRegistry, act_log: ActLog | None
) -> Iterator[AccessFiles | None]:
    """Raises ConfigError for a file that cannot be read."""
    rules, notice = settings.access.rules, None if act_log is None else act_log.notice
    if rules is None or settings.api.auth != KEYS:
        yield None
        return
    with AccessFiles(rules, settings.access.keys, watcher, registry, notice) as files:
        yield files


@contextmanager
def identity_provider(settings: Settings, clock: Clock, registry: CollectorRegistry) -> "Iterator[Provider | None]":
    """Raises ConfigError for a file that cannot be read, and where the library is not installed. A provider that does
    not answer is no error: it may start later."""
    if not settings.access.oidc.issuer:
        yield None
        return
    with open_provider(settings.access.oidc, clock, registry) as provider:
        yield provider


def open_provider(oidc: Oidc, clock: Clock, registry: CollectorRegistry) -> "Provider":
    """Not started: it asks nothing yet. Raises as `identity_provider` does."""
    try:
        from api.access.oidc.claims import OidcClient, OidcSettings  # here: the libraries for tokens take 100 ms
        from api.access.oidc.exchange import HttpxProvider
        from api.access.oidc.provider import Provider
    except ModuleNotFoundError as error:
        raise ConfigError("access.oidc needs the package joserfc: pip install 'delayline[access]'.") from error
    secret = oidc.client_secret.get_secret_value()
    client = OidcClient(oidc.client_id, oidc.redirect_url, oidc.scopes, secret) if oidc.client_id else None
    found = OidcSettings(
        issuer=oidc.issuer,
        audience=oidc.audience,
        algorithms=oidc.algorithms,
        principal_claim=oidc.principal_claim,
        groups_claim=oidc.groups_claim,
        leeway_ms=oidc.leeway,
        jwks_url=oidc.jwks_url,
        client=client,
    )
    return Provider(found, HttpxProvider(oidc.cafile, clock), clock, registry)


@contextmanager
def ledgers(
    settings: Settings, access: AccessFiles | None, watcher: Watcher, registry: CollectorRegistry, clock: Clock
) -> Iterator[Ledgers | None]:
    """What principals use of their quotas; None where there is no file that could have some. Raises ConfigError."""
    if access is not None:
        yield _opened(settings, access, registry, clock)
    elif settings.access.rules is None:
        yield None
    else:
        file = RulesFile(settings.access.rules, quotas_reader(settings), watcher, registry)
        yield _opened(settings, file, registry, clock)


def quotas_reader(settings: Settings) -> Callable[[bytes, str], AccessRules]:
    """Of a process that knows no keys. Where others do, the file has their rules."""
    return read_rules if settings.api.auth == KEYS else read_quotas


def _opened(
    settings: Settings, source: AccessFiles | RulesFile, registry: CollectorRegistry, clock: Clock
) -> Ledgers:
    opened = Ledgers(lambda: source.rules, clock, registry)
    if settings.proxy.rocketmq.port:
        uncounted = Gauge(
            "delayline_quota_uncounted",
            "1: there are quotas, and an entrance that counts nothing",
            ["entrance"],
            registry=registry,
        )
        uncounted.labels("rocketmq").set_function(lambda: bool(opened.quotas))
        if opened.quotas:
            log.warning(NOT_ROCKETMQ)
    return opened


def metrics_app(settings: Settings, handed: Services, app: DelaylineApi) -> DelaylineApi | None:
    """Of the port for metrics beside the one of `app`, where there is one."""
    if not settings.api.metrics_port:
        return None
    hosts = api_hosts(settings, settings.api.metrics_host)
    return create_metrics_app(handed, app, hosts, metrics_callers(settings, handed.clock))


def metrics_callers(settings: Settings, clock: Clock) -> Callers:
    """Who may read what the ports for metrics and health answer."""
    return CertificateNeeded(clock) if settings.metrics.client_cafile else NoKeys()


def _api_settings(settings: Settings) -> ApiSettings:
    return ApiSettings(
        namespace=settings.namespace,
        version=__version__,
        topics_on_first_use=settings.mq.kind == "embedded",
        audit_hold_max_ms=settings.audit.hold_max,
        body_bytes_max=settings.api.body_bytes_max,
        batch_messages_max=settings.api.batch_messages_max,
        requests_max=settings.api.requests_max,
        in_flight_bytes_max=settings.api.in_flight_bytes_max,
        followers_max=settings.api.streams_max,
        body_timeout_s=settings.api.body_timeout / 1000,
        http=api_limits(settings),
        hosts=api_hosts(settings, settings.api.host),
        client_names=settings.api.client_names if settings.api.client_certificates != "off" else None,
        shows_metrics=not settings.api.metrics_port,
        session_secret=settings.access.session_secret.get_secret_value().encode(),
        session_lifetime_ms=settings.access.session_lifetime,
        undo_ms=settings.history.undo,
        keeps_acts=settings.keeps_acts,
        is_delay_enabled=settings.is_delay_enabled,
        refuse_unknown=settings.delay.unknown == "refuse",
        rules=settings.rules(),
        rules_for=settings.rules_for,
        horizon_max_ms=settings.delay.horizon_max,
    )


def pending_limits(settings: Settings, owners: Owners, clock: Clock) -> PendingLimits:
    return PendingLimits(lru_cache(TOPICS_REMEMBERED)(settings.bounds_for), owners.figures, clock)
