"""The application: every part of the API, handed what it needs."""

from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.attempts import Attempts
from api.access.authenticator import Authenticator
from api.access.certificates import CertificateCallers
from api.access.sessions import Sessions
from api.bridge import Bridge
from api.bulk import BulkCancel
from api.http.caller import Callers, NoKeys
from api.http.edge import Edge
from api.http.hosts import Hosts
from api.http.in_flight import InFlight
from api.http.problems import Problems
from api.http.routing import PlainRoute
from api.http.sending_path import SendingPath
from api.metrics import Metrics
from api.openapi import document as openapi
from api.reading.acts import Acts
from api.reading.dead_letters import DeadLetters
from api.reading.follow import Closing, Followers, Streams
from api.reading.reader import Reader
from api.reading.survey import Survey
from api.routes.acts import ActRoutes
from api.routes.bulk import BulkRoutes
from api.routes.console import ConsoleRoutes
from api.routes.controls import ControlRoutes
from api.routes.dead import DeadRoutes
from api.routes.finding import FindingRoutes
from api.routes.health import HealthRoutes
from api.routes.installation import InstallationRoutes
from api.routes.managing import ManagingRoutes
from api.routes.messages import MessageRoutes
from api.routes.operations import OperationRoutes
from api.routes.own import OwnRoutes
from api.routes.quotas import QuotaRoutes
from api.routes.records import RecordRoutes
from api.routes.send import SEND, SendRoutes
from api.routes.session import SessionRoutes
from api.routes.stalls import StallRoutes
from api.routes.undo import UndoRoutes
from api.sending.admission import Admission
from api.sending.decisions import DecisionWaiter
from api.sending.drafts import Drafter, ScheduleValidator
from api.sending.quotas import SendQuotas
from api.sending.rights import SendRights
from api.sending.sender import Sender
from api.services import Services
from api.topics import TopicBook
from api.undoing import Purged
from api.undos import Undos
from delayline.access.hashing import Hasher
from delayline.http.guard import Guard, HttpLimits
from delayline.http.places import share_of
from delayline.names import Names

if TYPE_CHECKING:
    from api.access.oidc.tokens import Tokens

_NO_TELEMETRY = TelemetryConfig(tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False)

THREADS_MAX = 8
"""For questions to the queue that block: topics, pages. They wait for disks and sockets, not for cores."""

LOGINS_AT_ONCE = 16
"""Threads that ask the identity provider for what a code stands for."""

TOPICS_REMEMBERED = 1024
"""The settings of a topic are needed for every message: whether it takes delays, how many may wait."""

WORKER_REQUESTS_MAX = 64
WORKER_BYTES_MAX = 1 << 20
DEFAULT_LIMITS = HttpLimits()


class DelaylineApi(FastAPI):
    """FastAPI with a document of our own making. `closing` begins when the server stops. `guard` bounds connections.
    `metrics` are shared with the other entrances of the same process."""

    closing: Closing
    guard: Guard
    metrics: Metrics

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = openapi.document(self.version, self.routes)
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Straight to the middleware: FastAPI and Starlette add a call each, for a root path that is not set."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Our own middleware around the router. FastAPI adds layers that do nothing here, and every request passes
        each of them on its way in and out: `Edge` answers every error, telemetry and body limit are off, and no
        route leaves files to close."""
        app: ASGIApp = ExceptionMiddleware(self.router, handlers=self.exception_handlers)
        for middleware, args, options in reversed(self.user_middleware):
            app = middleware(app, *args, **options)
        return app


def create_app(services: Services) -> DelaylineApi:
    """The HTTP API of an installation. Its metrics go to `services.registry`: one application per registry."""
    settings = services.settings
    metrics = Metrics(services.registry)
    problems, closing, bridge = Problems(metrics), Closing(), Bridge()
    threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="api")
    follower_threads = ThreadPoolExecutor(settings.followers_max, thread_name_prefix="api-follow")
    scrapes = ThreadPoolExecutor(1, thread_name_prefix="api-metrics")
    comparing = ThreadPoolExecutor(1, thread_name_prefix="api-keys")
    exchanging = ThreadPoolExecutor(LOGINS_AT_ONCE, thread_name_prefix="api-oidc")
    app = _framework(settings.version, closing, (threads, follower_threads, scrapes, comparing, exchanging))
    share = settings.http.address_share_percent
    in_flight = InFlight(settings.requests_max, settings.in_flight_bytes_max, share)
    topics = TopicBook(services, threads, metrics)
    validator = ScheduleValidator(settings.rules, settings.horizon_max_ms)
    drafter = Drafter(
        validator,
        settings.rules_for,
        lru_cache(TOPICS_REMEMBERED)(settings.is_delay_enabled),
        metrics.unheeded,
        refuse_unknown=settings.refuse_unknown,
    )
    sender = Sender(services, topics, bridge, validator, metrics)
    reader = Reader(services.client, services.admin)
    places = Streams(settings.followers_max, share_of(settings.followers_max, share))
    followers = Followers(reader, follower_threads, places, settings.heartbeat_s, services.clock, closing)
    decisions = DecisionWaiter(services, bridge)
    survey = Survey(services, topics, bridge)
    admission, rights = Admission(services, topics, bridge), SendRights(Names(settings.namespace))
    quotas = SendQuotas(validator, topics, sender, makes_topics=settings.topics_on_first_use)
    sends = SendRoutes(services, topics, sender, drafter, validator, decisions, admission, rights, quotas)
    sends.register(app.router)
    app.add_middleware(SendingPath, send=sends.send, endpoint=SEND)
    callers = _callers(services, comparing, exchanging, app.router)
    hosts = Hosts(settings.hosts)
    app.add_middleware(  # the outermost
        Edge,
        problems=problems,
        in_flight=in_flight,
        hosts=hosts,
        callers=callers,
        act_log=services.act_log,
        ledger=services.http_ledger,
    )
    messages = MessageRoutes(services, topics, bridge, decisions)
    messages.register(app.router)
    FindingRoutes(services, topics, survey).register(app.router)
    operations = OperationRoutes(services, topics, sender, validator, decisions, messages, quotas)
    operations.register(app.router)
    purged = Purged(services.client, services.admin, services.claim, Names(settings.namespace))
    undos = Undos(settings.undo_ms, topics, purged)
    bulk = BulkCancel(services, topics, survey, sender, bridge)
    BulkRoutes(services, topics, bulk, undos).register(app.router)
    UndoRoutes(services, topics, purged).register(app.router)
    controls = ControlRoutes(services, topics, survey, sender, decisions, undos)
    controls.register(app.router)
    ManagingRoutes(services, topics, controls).register(app.router)
    StallRoutes(services, topics, bridge).register(app.router)
    OwnRoutes(topics, survey, messages, operations).register(app.router)
    RecordRoutes(reader, topics, followers, problems).register(app.router)
    InstallationRoutes(services, topics, survey, metrics.unheeded).register(app.router)
    dead = DeadLetters(services.client, services.admin, Names(settings.namespace).dead)
    DeadRoutes(services, topics, sender, validator, dead, quotas).register(app.router)
    acts = Acts(services.client, services.admin, Names(settings.namespace).operators)
    ActRoutes(services, topics, acts).register(app.router)
    health = HealthRoutes(services.readiness, services.registry, scrapes)
    health.register(app.router)
    if settings.shows_metrics:
        health.register_metrics(app.router)
    QuotaRoutes(services).register(app.router)
    ConsoleRoutes().register(app.router)
    _answer_framework_errors(app, problems)
    app.metrics, app.guard = metrics, Guard(settings.http, services.registry)
    return app


def _callers(
    services: Services, comparing: ThreadPoolExecutor, exchanging: ThreadPoolExecutor, router: APIRouter
) -> Callers:
    """Who a request is from; with the routes by which people log in. Raises ConfigError where the library for keys is
    not installed."""
    if services.access is None:
        SessionRoutes(None, None).register(router)
        return NoKeys()
    settings, clock = services.settings, services.clock
    sessions = Sessions(settings.session_secret, settings.session_lifetime_ms, clock)
    tokens, issuer = _by_provider(services, sessions, exchanging, router)
    SessionRoutes(sessions, issuer).register(router)
    callers: Callers = Authenticator(services.access, Hasher(), sessions, clock, comparing, services.registry, tokens)
    if (naming := settings.client_names) is not None:
        callers = CertificateCallers(callers, naming, services.access, clock, services.registry)
    return callers


def _by_provider(
    services: Services, sessions: Sessions, exchanging: ThreadPoolExecutor, router: APIRouter
) -> "tuple[Tokens | None, str | None]":
    """The tokens of the identity provider, and its issuer where people log in by it: the routes for that are there
    then."""
    provider, clock = services.provider, services.clock
    if provider is None:
        return None, None
    from api.access.oidc.logins import Logins  # here: the libraries for tokens take 100 ms
    from api.access.oidc.tokens import Tokens
    from api.routes.login import LoginRoutes

    settings = provider.settings
    tokens = Tokens(provider, clock, services.registry)
    if settings.client is None:
        return tokens, None
    logins = Logins(provider, settings.client, sessions, clock, exchanging)
    LoginRoutes(logins, sessions, settings.of_sessions, Attempts(clock)).register(router)
    return tokens, settings.issuer


def create_worker_app(
    version: str,
    registry: CollectorRegistry,
    readiness: Callable[[], tuple[bool, str]],
    limits: HttpLimits = DEFAULT_LIMITS,
    hosts: Sequence[str] = (),
    callers: Callers | None = None,
) -> DelaylineApi:
    """The port of a process that answers no HTTP clients: health, readiness, metrics. Without `callers` everybody may
    read them."""
    health = _Health(version, registry, readiness, limits, hosts, callers or NoKeys())
    return health.app(Metrics(registry), Guard(limits, registry))


def create_metrics_app(
    services: Services, beside: DelaylineApi, hosts: Sequence[str], callers: Callers
) -> DelaylineApi:
    """The same for a process with an HTTP API, which is `beside` and shares its metrics."""
    settings, registry = services.settings, services.registry
    health = _Health(settings.version, registry, services.readiness, settings.http, hosts, callers)
    return health.app(beside.metrics, Guard(settings.http, registry, "delayline_metrics_port"))


class _Health(NamedTuple):
    version: str
    registry: CollectorRegistry
    readiness: Callable[[], tuple[bool, str]]
    limits: HttpLimits
    hosts: Sequence[str]
    callers: Callers

    def app(self, metrics: Metrics, guard: Guard) -> DelaylineApi:
        problems, closing = Problems(metrics), Closing()
        scrapes = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        app = _framework(self.version, closing, (scrapes,))
        in_flight = InFlight(WORKER_REQUESTS_MAX, WORKER_BYTES_MAX, self.limits.address_share_percent)
        hosts = Hosts(self.hosts)
        app.add_middleware(Edge, problems=problems, in_flight=in_flight, hosts=hosts, callers=self.callers)
        routes = HealthRoutes(self.readiness, self.registry, scrapes)
        routes.register(app.router)
        routes.register_metrics(app.router)
        _answer_framework_errors(app, problems)
        app.metrics, app.guard = metrics, guard
        return app


def _framework(version: str, closing: Closing, pools: Sequence[ThreadPoolExecutor]) -> DelaylineApi:
    """Without FastAPI's pages: they load their scripts from elsewhere, which many networks do not allow. Without its
    redirects: a path with a slash too many is unknown, and a POST is never asked to go elsewhere. Without its
    telemetry: it costs 4 us per request, and what is measured is in `api.metrics`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        closing.begin()
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)

    app = DelaylineApi(
        title="Delayline",
        version=version,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        lifespan=lifespan,
    )
    app.router.route_class = PlainRoute
    app.closing = closing
    return app


def _answer_framework_errors(app: FastAPI, problems: Problems) -> None:
    """Unknown paths and wrong methods are found by the framework, not by routes."""

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "registered for nothing else"
        if error.status_code == 405:
            error = HTTPException(405, headers={"Allow": ", ".join(sorted(_methods(app, request)))})
        return problems.answer(request.scope, error)

    app.add_exception_handler(HTTPException, answer)


def _methods(app: FastAPI, request: Request) -> set[str]:
    """Every method that a route of this path takes; the framework looks only at the first of them."""
    matching = [route for route in app.router.routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in matching for method in getattr(route, "methods", None) or ()}
