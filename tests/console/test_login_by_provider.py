"""A person who logs in by an identity provider, on another site."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from delayline.clock import SystemClock
from tests.acceptance.asking import wait_for
from tests.brokers.identity_provider import AUDIENCE, CLIENT, SECRET, IdentityProvider, served
from tests.console.conftest import OpenPage
from tests.console.test_access import findings
from tests.fault.server import Server, http_client

RULES = '[[rule]]\nprincipals = ["oidc-group:ops"]\ntopics = ["*"]\nacts = ["read", "control"]\n'


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """For a browser `localhost` is another site than 127.0.0.1."""
    with served(SystemClock(), "localhost") as idp:
        idp.asks = True
        yield idp


@pytest.fixture
def ready(provider: IdentityProvider, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "rules.toml").write_text(RULES)
    server = Server(tmp_path / "data", api__auth="keys", access__rules=str(tmp_path / "rules.toml"))
    settings = {
        "issuer": provider.issuer,
        "audience": AUDIENCE,
        "groups_claim": "groups",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "redirect_url": f"{server.url}/v1/session/callback",
    }
    server.settings |= {f"access__oidc__{name}": value for name, value in settings.items()}
    server.start()
    server.wait_ready()
    yield server
    server.kill()


def test_a_person_logs_in_by_the_provider_and_goes_on_where_it_was(
    open_page: OpenPage, ready: Server, provider: IdentityProvider
) -> None:
    with http_client(10) as http:
        wait_for(lambda: http.get(f"{ready.url}/v1/session/login").status_code, lambda status: status == 303)
    page = open_page("#/send", url=ready.url)
    button = page.get_by_role("button", name=f"Log in with {provider.issuer.removeprefix('http://')}")
    expect(button).to_be_visible()
    assert findings(page) == []
    provider.back = {"error": "access_denied", "code": ""}
    button.click()
    page.get_by_role("link", name="Agree").click()
    expect(page.get_by_role("main")).to_contain_text("The identity provider did not log you in.")
    assert page.url == f"{ready.url}/#/send"
    provider.back = {}
    button.click()
    page.get_by_role("link", name="Agree").click()
    expect(page.locator("#session")).to_contain_text("oidc:ann")
    assert page.url == f"{ready.url}/#/send"
    (cookie,) = page.context.cookies(ready.url)
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("delayline-session", True, "Strict")
    page.reload()
    expect(page.locator("#session")).to_contain_text("oidc:ann")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("main")).to_contain_text("You are logged out.")
    assert page.context.cookies(ready.url) == []
