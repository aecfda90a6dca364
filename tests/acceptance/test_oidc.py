"""Tokens of an identity provider, and logins by it, on a server at work, as docs/security.md has them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from delayline.clock import SystemClock
from tests.acceptance.asking import run, wait_for
from tests.acceptance.conftest import MakeServer
from tests.brokers.identity_provider import AUDIENCE, CLIENT, SECRET, IdentityProvider, served
from tests.fault.server import http_client

RULES = """
[[rule]]
principals = ["oidc:svc"]
topics = ["orders*"]
acts = ["send"]

[[rule]]
principals = ["oidc-group:ops"]
topics = ["*"]
acts = ["read", "control"]
"""
CALLBACK = "/v1/session/callback"


class Installation:
    """A server without keys, whose clients show tokens."""

    def __init__(self, make_server: MakeServer, folder: Path, idp: IdentityProvider) -> None:
        self.idp = idp
        (folder / "rules.toml").write_text(RULES)
        (folder / "client-secret").write_text(SECRET + "\n")
        self.server = make_server("data", api__auth="keys", access__rules=str(folder / "rules.toml"))
        self.settings = {
            "issuer": idp.issuer,
            "audience": AUDIENCE,
            "groups_claim": "groups",
            "client_id": CLIENT,
            "client_secret": SECRET,
            "redirect_url": f"{self.server.url}{CALLBACK}",
        }
        self.server.settings |= {f"access__oidc__{name}": value for name, value in self.settings.items()}

    def start(self) -> None:
        self.server.start()
        self.server.wait_ready()

    def send(self, token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        body = {"value": "v", "schedule": {"delay": "1h"}}
        with http_client(10) as http:
            url = f"{self.server.url}/v1/topics/orders/messages"
            return http.post(url, headers=headers, json=body).status_code


@pytest.fixture
def installation(make_server: MakeServer, tmp_path: Path) -> Iterator[Installation]:
    with served(SystemClock(), "localhost") as idp:
        yield Installation(make_server, tmp_path, idp)


def test_programs_show_tokens_and_keys_of_the_provider_rotate(installation: Installation) -> None:
    """Also where the provider is not there yet when the server starts, and goes away later."""
    idp = installation.idp
    idp.is_down = True
    installation.start()
    assert installation.send(idp.access_token()) == 503
    idp.is_down = False
    assert wait_for(lambda: installation.send(idp.access_token()), lambda status: status == 201) == 201
    assert installation.send(idp.access_token(sub="eve")) == 403
    assert installation.send(idp.access_token(aud="other")) == 401
    idp.rotate("two", keeps=True)
    assert wait_for(lambda: installation.send(idp.access_token()), lambda status: status == 201) == 201
    idp.is_down = True
    assert installation.send(idp.access_token()) == 201
    log = installation.server.log.read_text()
    assert "the identity provider cannot be used" in log
    assert SECRET not in log
    ran = run("topics", url=installation.server.url, key=idp.access_token(groups=["ops"]))
    assert (ran.code, "orders" in ran.out) == (0, True), ran.err


def test_a_person_logs_in_by_the_provider_and_out_again(installation: Installation) -> None:
    installation.start()
    idp, url = installation.idp, installation.server.url

    def begun() -> int:
        with http_client(10) as http:
            return http.get(f"{url}/v1/session/login").status_code

    wait_for(begun, lambda status: status == 303)
    with httpx.Client(base_url=url, timeout=10, verify=False) as browser:
        there = browser.get("/v1/session/login").headers["location"]
        assert urlsplit(there).netloc == urlsplit(idp.issuer).netloc
        back = httpx.get(there).headers["location"]
        answer = browser.get(back)
        assert (answer.status_code, answer.headers["location"]) == (303, "../../")
        session = browser.get("/v1/session").json()
        assert session["principal"] == "oidc:ann"
        assert browser.get("/v1/topics").status_code == 200
        assert httpx.get(back).status_code == 401, "in another browser"
        token = {"x-csrf-token": session["csrf_token"], "delayline-request": "1"}
        assert browser.post("/v1/topics/orders:pause", headers=token).status_code == 404
        assert browser.delete("/v1/session", headers=token).status_code == 204
        assert browser.get("/v1/topics").status_code == 401


def test_the_settings_are_checked_before_a_server_starts(installation: Installation) -> None:
    settings = installation.server.settings
    right, wrong = run("config", "check", **settings), run("config", "check", **settings, access__oidc__cafile="none")
    assert (right.code, wrong.code) == (0, 2), right.err
    assert "access.oidc.cafile: cannot use" in wrong.err
    assert SECRET not in right.out + wrong.err


def test_it_is_explained_what_groups_allow(installation: Installation) -> None:
    rules = installation.server.settings["access__rules"]
    explain = ("access", "explain", "oidc:ann", "control", "orders", "--file", rules)
    assert run(*explain).code == 1
    ran = run(*explain, "--group", "dev", "--group", "ops")
    assert (ran.code, ran.out.strip()) == (0, f"allowed by the rule at {rules}:7")
