"""GET /v1/quotas: who has used how much of what."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.quotas import PrincipalOut, QuotaOut, QuotasOut, UsedOut
from api.http.answers import json_answer
from api.http.endpoint import Endpoint, Reply
from api.http.requests import Query
from api.http.routing import add_route
from api.services import Services
from delayline.access.acts import Act
from delayline.access.ledger import Account, Ledger, Ledgers
from delayline.access.quotas import Quota

SHOWN_MAX = 1000

_GET_QUOTAS = Endpoint(
    id="getQuotas",
    act=Act.ADMIN,
    summary="The quotas, and what principals have used of them in this process",
    replies=[Reply(200, "The quotas", [QuotasOut])],
    refuses=[400, 503],
)


class QuotaRoutes:
    """Shows quotas."""

    def __init__(self, services: Services) -> None:
        self._quotas = services.quotas
        self._over_http = services.http_ledger is not None

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/quotas", self.quotas, _GET_QUOTAS)

    async def quotas(self, request: Request) -> Response:
        Query(request)
        ledgers = self._quotas
        if ledgers is None:
            return json_answer(200, QuotasOut(over_http=False, quotas=[], principals=[], complete=True))
        quotas = [QuotaOut(quota.names, quota.limits) for quota in ledgers.quotas[:SHOWN_MAX]]
        known = _principals(ledgers)
        complete = len(known) <= SHOWN_MAX
        return json_answer(200, QuotasOut(self._over_http, quotas, known[:SHOWN_MAX], complete))


def _principals(ledgers: Ledgers) -> list[PrincipalOut]:
    known = [*_of("http", ledgers.http), *_of("kafka", ledgers.kafka)]
    return sorted(known, key=lambda one: (-one.throttled, one.principal, one.entrance))


def _of(entrance: str, ledger: Ledger) -> list[PrincipalOut]:
    return [_principal(entrance, account, quota) for account, quota in ledger.accounts()]


def _principal(entrance: str, account: Account, quota: Quota) -> PrincipalOut:
    used = [UsedOut(limit, used, burst) for limit, used, burst in account.uses(quota)]
    return PrincipalOut(account.principal, entrance, quota.limits, used, account.throttled)
