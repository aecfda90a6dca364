"""Health, readiness, metrics: how the process is. Every process has them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import HealthOut
from api.http.answers import Answer, json_answer
from api.http.caller import Open
from api.http.endpoint import Endpoint, Reply
from api.http.problems import NOT_READY, Refusal
from api.http.routing import add_route
from delayline.access.acts import Act

_HEALTH = Endpoint(
    id="getHealth",
    act=Open.TO_ALL,
    summary="Whether the process answers",
    replies=[Reply(200, "It does", [HealthOut])],
)
_READY = Endpoint(
    id="getReadiness",
    act=Open.TO_ALL,
    summary="Whether messages are taken in and delivered",
    replies=[Reply(200, "They are", [HealthOut])],
    refuses=[503],
)
_METRICS = Endpoint(
    id="getMetrics",
    act=Act.METRICS,
    summary="Metrics for Prometheus",
    replies=[Reply(200, "Text exposition format", texts=["text/plain"])],
)


class HealthRoutes:
    """`readiness` returns (ready, why not) without blocking; `scrapes` runs the collectors of `registry`, which may
    take locks. Nothing here waits for the queue, so that they answer while it does not."""

    def __init__(
        self, readiness: Callable[[], tuple[bool, str]], registry: CollectorRegistry, scrapes: Executor
    ) -> None:
        self._readiness = readiness
        self._registry = registry
        self._scrapes = scrapes

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/healthz", self.health, _HEALTH)
        add_route(router, "GET", "/readyz", self.ready, _READY)

    def register_metrics(self, router: APIRouter) -> None:
        """Apart from the others: they may be on a port of their own."""
        add_route(router, "GET", "/metrics", self.metrics, _METRICS)

    async def health(self, request: Request) -> Response:
        """The event loop turns: that is all that liveness should depend on."""
        return json_answer(200, HealthOut("ok"))

    async def ready(self, request: Request) -> Response:
        is_ready, reason = self._readiness()
        if not is_ready:
            raise Refusal(NOT_READY, reason)
        return json_answer(200, HealthOut("ready", None if reason == "ready" else reason))

    async def metrics(self, request: Request) -> Response:
        text = await asyncio.get_running_loop().run_in_executor(self._scrapes, generate_latest, self._registry)
        return Answer(200, text, CONTENT_TYPE_LATEST.encode())
