"""An API that takes tokens of an identity provider, without sockets."""

from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from api.access.oidc.claims import OidcClient, OidcSettings
from api.access.oidc.provider import AGAIN_S, READ_EVERY_S, Provider
from tests.brokers.identity_provider import AUDIENCE, CLIENT, SECRET, HeldProvider, IdentityProvider
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import Api

ISSUER = "https://id.example/realms/main"
OF_API = ("session_secret", "session_lifetime_ms", "act_log")
CALLBACK = "/v1/session/callback"
PERSONS_CLIENT = OidcClient(CLIENT, f"http://api{CALLBACK}", ("openid", "profile"), SECRET)
RULES = allowing("oidc:svc", "read", "send") + allowing("oidc:ann", "read") + allowing("oidc-group:ops", "control")


class Installation:
    """`provider` has read keys and endpoints, unless it `is_down`. No thread of it runs: `look` is one turn."""

    def __init__(self, *, is_down: bool = False, rules: str = RULES, **settings: Any) -> None:
        self.access = HeldAccess(rules, "ann")
        of_api = {name: settings.pop(name) for name in OF_API if name in settings}
        self.settings = OidcSettings(
            **{
                "issuer": ISSUER,
                "audience": AUDIENCE,
                "algorithms": ("RS256", "PS256", "ES256", "EdDSA"),
                "groups_claim": "groups",
                "client": PERSONS_CLIENT,
                **settings,
            }
        )
        self.api = Api(access=self.access, provider=self._provider, **of_api)
        self.idp.is_down = is_down
        self.provider.look()

    def _provider(self, clock: Any, registry: CollectorRegistry) -> Provider:
        self.clock = clock
        self.idp = IdentityProvider(ISSUER, clock)
        self.provider = Provider(self.settings, HeldProvider(self.idp), clock, registry)
        return self.provider

    def read_again(self) -> None:
        """Its thread's next turn that reads what it reads from time to time."""
        self.clock.advance(int(READ_EVERY_S * 1000))
        self.provider.look()

    def try_again(self) -> None:
        self.clock.advance(int(AGAIN_S * 1000))
        self.provider.look()

    def ask(self, token: str, path: str = "/v1/topics/orders") -> httpx.Response:
        self.api.queue.ensure_topic("orders")
        return self.api.get(path, headers={"authorization": f"Bearer {token}"})

    def who(self, token: str) -> httpx.Response:
        return self.ask(token, "/v1/session")
