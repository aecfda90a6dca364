"""Rules and keys in memory, and what principals present."""

from argon2 import PasswordHasher
from msgspec.structs import replace

from delayline.access.keys import AccessKey, AccessKeys, Token, new_token
from delayline.access.rules import parse_rules

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""A hash carries its parameters: comparing with one of these takes no time."""


class HeldAccess:
    """A key for each of the principals."""

    def __init__(self, rules: str, *principals: str) -> None:
        self.rules = parse_rules(rules, "rules.toml")
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
        self.rules = parse_rules(rules, "rules.toml")

    def header(self, principal: str) -> str:
        return f"Bearer {self.tokens[principal]}"


def allowing(principal: str, *acts: str, topics: str = "orders") -> str:
    """A rule as it would be written."""
    return f"[[rule]]\nprincipals = ['{principal}']\ntopics = ['{topics}']\nacts = {list(map(str, acts))}\n"
