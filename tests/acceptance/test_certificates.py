"""Client certificates on a server at work, and the port for metrics beside it, as docs/security.md has them."""

import os
import re
import shutil
import subprocess
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from delayline.process.tls import Authorities, TlsFiles
from tests.acceptance.asking import DELAYLINE, run, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.on_kafka import settings_of
from tests.brokers.authority import Authority
from tests.fault.server import ROOT, Server, environment
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

RULES = """
[[rule]]
principals = ["x509:CN=orders,O=Acme"]
topics = ["*"]
acts = ["send", "read", "payload"]
"""
STOPPED_WITHIN_S = 5.0
ACT = {"delayline-request": "1"}
LATER = {"value": "v", "schedule": {"delay": "1h"}}


class Installation:
    """A server without keys that asks for certificates of one authority, and has a port for metrics."""

    def __init__(self, make_server: MakeServer, folder: Path) -> None:
        self.clients, self.servers = Authority(folder, "clients"), Authority(folder, "servers")
        (folder / "rules.toml").write_text(RULES)
        certificate, metrics_port = str(self.servers.issue("server")), free_port()
        self.server: Server = make_server(
            api__auth="keys",
            api__certfile=certificate,
            api__client_certificates="asked",
            api__client_cafile=str(self.clients.file),
            api__metrics_port=str(metrics_port),
            access__rules=str(folder / "rules.toml"),
            metrics__certfile=certificate,
            metrics__client_cafile=str(self.clients.file),
        )
        self.url = self.server.url.replace("http:", "https:")
        self.metrics_url = f"https://127.0.0.1:{metrics_port}"
        self.server.start()
        with self.client(None) as http:
            wait_for(lambda: _status(http, f"{self.url}/readyz"), lambda status: status == 200)

    def client(self, shown: Path | None) -> httpx.Client:
        return httpx.Client(verify=self.servers.trusting(shown), timeout=10, headers=ACT)

    def get(self, shown: Path | None, url: str) -> int:
        with self.client(shown) as http:
            return _status(http, url)

    def send(self, shown: Path | None) -> int:
        with self.client(shown) as http:
            return http.post(f"{self.url}/v1/topics/orders/messages", json=LATER).status_code


def _status(http: httpx.Client, url: str) -> int:
    """0 where there is no connection."""
    try:
        return http.get(url).status_code
    except httpx.TransportError:
        return 0


@pytest.fixture
def installation(make_server: MakeServer, tmp_path: Path) -> Installation:
    return Installation(make_server, tmp_path)


def test_a_certificate_may_do_what_the_rules_allow_and_metrics_need_one(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, other = installation.clients.issue("orders"), installation.clients.issue("other")
    assert [installation.send(shown) for shown in (orders, other, None)] == [201, 403, 401]
    stranger = installation.servers.issue("stranger")
    assert installation.get(stranger, f"{installation.url}/healthz") == 0
    wait_for(installation.server.tail_of_log, lambda log: "a TLS handshake failed" in log)
    assert "unknown ca" in installation.server.tail_of_log() or "self-signed" in installation.server.tail_of_log()

    metrics = installation.metrics_url
    assert [installation.get(None, f"{metrics}/{path}") for path in ("healthz", "readyz", "metrics")] == [
        200,
        200,
        401,
    ]
    assert [installation.get(other, f"{metrics}/{path}") for path in ("metrics", "v1/topics")] == [200, 404]
    assert installation.get(orders, f"{installation.url}/metrics") == 404

    monkeypatch.setenv("SSL_CERT_FILE", str(installation.servers.file))
    assert run("topics", url=installation.url, certfile=str(orders)).code == 0
    refused = run("topics", url=installation.url, certfile=str(installation.clients.file))
    assert (refused.code, "DELAYLINE_CERTFILE" in refused.err) == (2, True)


def test_a_certificate_that_expires_ends_a_stream_and_one_of_a_removed_authority_begins_no_connection(
    installation: Installation,
) -> None:
    orders = installation.clients.issue("orders")
    assert installation.send(orders) == 201
    ends = installation.clients.issue("orders", lasts=timedelta(seconds=4), as_name="soon over")
    last: list[str] = []
    opened = threading.Event()

    def follow() -> None:
        path = f"{installation.url}/v1/topics/delayline.audit/records?follow=sse"
        with installation.client(ends) as http, http.stream("GET", path, timeout=30) as answer:
            for line in answer.iter_lines():
                opened.set()
                last.append(line)

    following = threading.Thread(target=follow)
    following.start()
    assert opened.wait(20)
    following.join(4 + STOPPED_WITHIN_S)
    assert not following.is_alive()
    assert '"/problems/unauthenticated"' in "".join(last)
    assert installation.get(ends, f"{installation.url}/healthz") == 0

    with installation.client(orders) as open_one:
        assert _status(open_one, f"{installation.url}/v1/topics") == 200
        successor = Authority(installation.clients.folder, "successor")
        shutil.copy(successor.file, installation.clients.file)
        after = successor.issue("orders", as_name="after")
        wait_for(lambda: installation.get(after, f"{installation.url}/v1/topics"), lambda status: status == 200)
        assert installation.get(orders, f"{installation.url}/v1/topics") == 0
        assert _status(open_one, f"{installation.url}/v1/topics") == 200, "a connection that is open goes on"


def test_what_the_page_sets_up_works(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands, its settings, its rule, and what a client does."""
    page = (ROOT / "docs" / "certificates.md").read_text()
    (between,) = re.findall(
        r"^```sh\n(umask 077\n.*?internal.*?)^```", page.split("## Between processes")[1], re.M | re.S
    )
    clients = page.split("## Clients with certificates")[1]
    set_up, asked = re.findall(r"^```sh\n(.*?)^```", clients, re.M | re.S)[:2]
    settings, rule = re.findall(r"^```toml\n(.*?)^```", clients, re.M | re.S)[:2]
    for commands in (set_up, between):
        subprocess.run(["sh", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "rules.toml").write_text(rule)
    port, binary = free_port(), DELAYLINE.parent
    config = tmp_path / "delayline.toml"
    config.write_text(re.sub(r"\"([a-z-]+\.(?:crt|key|toml))\"", rf'"{tmp_path}/\1"', settings))
    assert run("config", "check", config=str(config)).code == 0
    checked = run("config", "check", config=str(config), api__client_cafile=str(tmp_path / "orders.key"))
    assert (checked.code, "api.client_cafile: " in checked.err) == (2, True)
    server = make_server(config=str(config), api__port=str(port))
    server.start()
    wait_for(server.tail_of_log, lambda log: "listens on" in log)
    environ = environment(url=f"https://localhost:{port}", PATH=f"{binary}:{os.environ['PATH']}")
    ran = subprocess.run(["sh", "-exc", asked], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stderr, server.tail_of_log())
    assert '"orders.' in ran.stdout, "the message's id, as the send answered"
    assert "orders" in ran.stdout.splitlines()[-1], "the topic, as the command line lists it"
    certificate, key, authority = (
        str(tmp_path / name) for name in ("internal.crt", "internal.key", "internal-ca.crt")
    )
    files = TlsFiles("s", certificate, key, Authorities("s", authority))
    assert files.server().cert_store_stats()["x509_ca"] == files.client().cert_store_stats()["x509_ca"] == 1


def test_a_worker_shows_metrics_to_certificates_alone_and_its_health_to_all(
    kafka: "KafkaAt", make_server: MakeServer, tmp_path: Path
) -> None:
    """On any address: there is no `api.auth`."""
    ca = Authority(tmp_path, "ca")
    shown = ca.issue("prometheus")
    tls = {"metrics__certfile": str(ca.issue("server")), "metrics__client_cafile": str(ca.file)}
    worker = make_server(command="worker", worker__host="0.0.0.0", **settings_of(kafka), **tls)
    worker.start()
    url = worker.url.replace("http:", "https:")
    with httpx.Client(verify=ca.trusting(), timeout=10) as http:
        assert wait_for(lambda: _status(http, f"{url}/readyz"), lambda status: status == 200) == 200
        assert _status(http, f"{url}/metrics") == 401
    with httpx.Client(verify=ca.trusting(shown), timeout=10) as http:
        assert "delayline_build_info" in http.get(f"{url}/metrics").text
