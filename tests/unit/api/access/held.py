"""Rules and keys in memory, and what principals present."""

from typing import Any, NamedTuple

from argon2 import PasswordHasher
from msgspec.structs import replace

from delayline.access.keys import AccessKey, AccessKeys, Token, new_token
from delayline.access.rules import AccessRules, parse_rules
from tests.unit.api.in_memory import Api

SESSION = "/v1/session"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""A hash carries its parameters: comparing with one of these takes no time."""


class HeldAccess:
    """A key for each of the principals."""

    def __init__(self, rules: str, *principals: str) -> None:
        self.allow(rules)
        self.keys = AccessKeys([])
        self.tokens: dict[str, Token] = {}
        for principal in principals:
            self.add(principal)

    def add(self, principal: str, expires_ms: int | None = None) -> AccessKey:
        token = self.tokens[principal] = new_token()
        key = AccessKey(token.key_id, principal, QUICK.hash(token.secret), 0, expires_ms)
        self.keys = self.keys.having(key)
        return key

    def end(self, principal: str, at_ms: int) -> None:
        key = self.keys.get(self.tokens[principal].key_id)
        assert key is not None
        self.keys = self.keys.having(replace(key, expires_ms=at_ms))

    def allow(self, rules: str) -> None:
        self.rules = parse_rules(rules, "rules.toml") if rules else AccessRules([])

    def header(self, principal: str) -> str:
        return f"Bearer {self.tokens[principal]}"


class LoggedIn(NamedTuple):
    """What a browser has after a login: the cookie, which goes with every request, and the token for the others."""

    cookie: str
    token: str

    @property
    def headers(self) -> dict[str, Any]:
        """As `ask` takes them."""
        return {"cookie": self.cookie, "x_csrf_token": self.token}


def log_in(of: Api, access: HeldAccess, principal: str, **more: str) -> LoggedIn:
    answer = of.request("POST", SESSION, headers={"authorization": access.header(principal), **more})
    assert answer.status_code == 201, answer.text
    return LoggedIn(answer.headers["set-cookie"].partition(";")[0], answer.json()["csrf_token"])


def allowing(principal: str, *acts: str, topics: str = "orders") -> str:
    """A rule as it would be written."""
    return f"[[rule]]\nprincipals = ['{principal}']\ntopics = ['{topics}']\nacts = {list(map(str, acts))}\n"
