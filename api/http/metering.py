"""What a request costs its principal: the account is found once for each request, and paid where the cost is known.

requests   before anything else is done with the request (`begin`)
bytes      what is read of its body (`api.http.requests`)
"""

from starlette.requests import Request
from starlette.types import Scope

from api.http.caller import CALLER, Caller
from delayline.access.ledger import Account, Ledger

LEDGER = "delayline.ledger"
ACCOUNT = "delayline.account"
"""Where a request's scope has them; neither is there without quotas."""


def begin(scope: Scope) -> None:
    """Hot: once per request. Raises Refusal (401), OverQuota."""
    ledger: Ledger | None = scope.get(LEDGER)
    if ledger is None:
        return
    caller: Caller = scope[CALLER]
    account = ledger.account(caller.principal)
    if account is not None:
        account.take_request()
        scope[ACCOUNT] = account


def account_of(request: Request) -> Account | None:
    """None where no quota is for its principal."""
    return request.scope.get(ACCOUNT)
