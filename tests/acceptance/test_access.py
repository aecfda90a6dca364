"""Keys and rules on a server at work, as docs/security.md has them."""

import os
import re
import ssl
import threading
from pathlib import Path

import httpx
import pytest

from tests.acceptance.asking import Ran, run, wait_for
from tests.acceptance.conftest import MakeServer
from tests.brokers.certificates import make_certificate
from tests.fault.server import Server, http_client

RULES = """
[[rule]]
principals = ["orders-service"]
topics = ["orders*"]
acts = ["send"]

[[rule]]
principals = ["ops/*"]
topics = ["*"]
acts = ["read", "payload", "cancel", "control"]
"""
ENDED_WITHIN_S = 5.0


class Installation:
    """A folder whose name has a blank, with rules, keys, and a server that reads them."""

    def __init__(self, make_server: MakeServer, folder: Path) -> None:
        self.rules, self.keys = folder / "the rules.toml", folder / "the keys.json"
        self.rules.write_text(RULES)
        self.key = {name: self.new_key(name) for name in ("orders-service", "ops/ann")}
        settings = {"api__auth": "keys", "access__rules": str(self.rules), "access__keys": str(self.keys)}
        self.settings = settings
        self.server: Server = make_server("data", **settings)
        self.server.start()
        self.server.wait_ready()

    def new_key(self, principal: str, *more: str) -> str:
        ran = run("access", "keys", "create", principal, "--file", str(self.keys), *more)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def ask(self, principal: str | None, method: str, path: str, **options: object) -> httpx.Response:
        headers = {} if principal is None else {"authorization": f"Bearer {self.key[principal]}"}
        with http_client(10) as http:
            return http.request(method, self.server.url + path, headers=headers, **options)  # type: ignore[arg-type]

    def send(self, principal: str | None, topic: str = "orders") -> int:
        body = {"value": "v", "schedule": {"delay": "1h"}}
        return self.ask(principal, "POST", f"/v1/topics/{topic}/messages", json=body).status_code

    def command(self, principal: str, *arguments: str) -> Ran:
        return run(*arguments, url=self.server.url, key=self.key[principal])


@pytest.fixture
def installation(make_server: MakeServer, tmp_path: Path) -> Installation:
    folder = tmp_path / "an installation"
    folder.mkdir()
    return Installation(make_server, folder)


def test_each_principal_may_do_what_the_rules_allow_and_no_more(installation: Installation) -> None:
    assert [installation.send(who) for who in (None, "orders-service", "ops/ann")] == [401, 201, 403]
    assert installation.send("orders-service", "mails") == 403
    purge = ("POST", "/v1/topics/orders:purge?dry_run=true")
    act = {"delayline-request": "1"}
    with http_client(10) as http:
        for who, status in (("orders-service", 403), ("ops/ann", 200)):
            headers = {"authorization": f"Bearer {installation.key[who]}", **act}
            answer = http.request(purge[0], installation.server.url + purge[1], headers=headers)
            assert answer.status_code == status, answer.text


def test_the_command_line_shows_its_key_and_the_answer_names_the_right(installation: Installation) -> None:
    ran = installation.command("orders-service", "send", "orders", "v", "--delay", "1h")
    assert ran.code == 0, ran.err
    listed = installation.command("ops/ann", "list", "--topic", "orders", "--json")
    assert ran.out.split()[0] in listed.out
    refused = installation.command("orders-service", "purge", "orders", "--dry-run")
    assert refused.code == 1
    assert "orders-service has no right to `control` of topic 'orders'" in refused.err
    assert "needs a key" in run("topics", url=installation.server.url).err


def test_a_key_in_a_file_is_sent_as_well(installation: Installation, tmp_path: Path) -> None:
    file = tmp_path / "ops.key"
    file.write_text(installation.key["ops/ann"] + "\n")
    assert run("topics", url=installation.server.url, key_file=str(file)).code == 0
    missing = run("topics", url=installation.server.url, key_file=str(tmp_path / "none"))
    assert (missing.code, "cannot read the key" in missing.err) == (2, True)


def test_a_key_that_ends_ends_streams_that_are_open(installation: Installation) -> None:
    """Within five seconds, with the reason as the last event."""
    assert installation.send("orders-service") == 201
    last: list[str] = []
    opened = threading.Event()

    def follow() -> None:
        headers = {"authorization": f"Bearer {installation.key['ops/ann']}"}
        path = "/v1/topics/delayline.audit/records?follow=sse"
        with http_client(30) as http, http.stream("GET", installation.server.url + path, headers=headers) as answer:
            assert answer.status_code == 200
            for line in answer.iter_lines():
                opened.set()
                last.append(line)

    following = threading.Thread(target=follow)
    following.start()
    assert opened.wait(20)
    key_id = installation.key["ops/ann"].split("_")[1]
    assert run("access", "keys", "end", key_id, "--file", str(installation.keys)).code == 0
    following.join(ENDED_WITHIN_S)
    assert not following.is_alive()
    assert '"/problems/unauthenticated"' in "".join(last)
    assert installation.ask("ops/ann", "GET", "/v1/topics").status_code == 401


@pytest.mark.thorough
def test_a_session_outlasts_a_restart_where_there_is_a_secret_and_ends_with_its_key(
    installation: Installation,
) -> None:
    def as_browser(method: str, path: str) -> int:
        with http_client(10) as http:
            return http.request(method, installation.server.url + path, headers=headers).status_code

    for secret, status in ((None, 401), ("sixteen letters!", 200)):
        if secret is not None:
            installation.server.settings["access__session_secret"] = secret
            installation.server.stop()
            installation.server.start()
            installation.server.wait_ready()
        with http_client(10) as http:
            begin = {"authorization": f"Bearer {installation.key['ops/ann']}", "delayline-request": "1"}
            answer = http.post(f"{installation.server.url}/v1/session", headers=begin)
        headers = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
        assert as_browser("GET", "/v1/topics") == 200
        installation.server.stop()
        installation.server.start()
        installation.server.wait_ready()
        assert as_browser("GET", "/v1/topics") == status
    key_id = installation.key["ops/ann"].split("_")[1]
    assert run("access", "keys", "end", key_id, "--file", str(installation.keys)).code == 0
    assert wait_for(lambda: as_browser("GET", "/v1/topics"), lambda status: status == 401) == 401


def test_a_typo_in_the_rules_changes_nothing_until_it_is_mended(installation: Installation) -> None:
    assert installation.send("orders-service") == 201
    installation.rules.write_text(RULES.replace('["send"]', '["sned"]'))
    wait_for(installation.server.tail_of_log, lambda log: "stays in force" in log)
    assert installation.send("orders-service") == 201
    checked = run("config", "check", **installation.settings)
    assert checked.code == 2
    assert re.search(r"the rules\.toml: .*'sned'", checked.err), checked.err
    installation.rules.write_text(RULES.replace("orders-service", "another"))
    assert wait_for(lambda: installation.send("orders-service"), lambda status: status == 403) == 403


QUOTA = """
[[quota]]
principals = ["orders-service"]
requests_per_second = 1
requests_burst = 2
times_max = 3
"""


def test_a_quota_counts_within_seconds_of_the_change_and_ends_with_the_next_one(installation: Installation) -> None:
    installation.rules.write_text(RULES + QUOTA)
    assert wait_for(lambda: installation.send("orders-service"), lambda status: status == 429) == 429
    body = {"value": "x" * 100_000}
    refused = installation.ask("orders-service", "POST", "/v1/topics/orders/messages", json=body)
    assert (refused.status_code, refused.json()["quota"]) == (429, "requests_per_second")
    assert int(refused.headers["retry-after"]) >= 1
    assert {installation.ask("ops/ann", "GET", "/v1/topics").status_code for _ in range(10)} == {200}
    installation.rules.write_text(RULES)

    def sends() -> set[int]:
        return {installation.send("orders-service") for _ in range(5)}

    assert wait_for(sends, lambda statuses: statuses == {201}) == {201}


def test_the_command_line_shows_which_quota_holds(installation: Installation) -> None:
    installation.rules.write_text(RULES + QUOTA)
    file = ("--file", str(installation.rules))
    shown = run("access", "quota", "orders-service", *file)
    assert shown.out.splitlines() == [
        f"the quota at {installation.rules}:12",
        "  requests_per_second = 1",
        "  requests_burst = 2",
        "  times_max = 3",
    ]
    assert (
        run("access", "quota", "ops/ann", *file).out == f"no limit: no quota of {installation.rules} is for ops/ann\n"
    )
    installation.rules.write_text(QUOTA)
    assert run("access", "quota", "orders-service", *file).out.startswith(f"the quota at {installation.rules}:2")


def test_config_check_reads_quotas_as_a_server_would(installation: Installation, tmp_path: Path) -> None:
    installation.rules.write_text(RULES + QUOTA.replace("= 1", "= 0", 1))
    checked = run("config", "check", **installation.settings)
    assert checked.code == 2
    assert re.search(r"the rules\.toml: .*>= 1 - at `\$\.quota\[0\]\.requests_per_second`", checked.err), checked.err
    alone = tmp_path / "quotas.toml"
    alone.write_text(QUOTA)
    proxy = {"mq__kind": "kafka", "mq__bootstrap_servers": "127.0.0.1:1", "proxy__kafka__port": "9092"}
    assert run("config", "check", access__rules=str(alone), **proxy).code == 0
    alone.write_text(RULES + QUOTA)
    checked = run("config", "check", access__rules=str(alone), **proxy)
    assert checked.code == 2
    assert "it holds quotas alone" in checked.err


def test_config_check_warns_of_quotas_that_an_entrance_does_not_count(installation: Installation) -> None:
    rocketmq = {"mq__kind": "rocketmq", "mq__bootstrap_servers": "127.0.0.1:1", "proxy__rocketmq__port": "9876"}
    checked = run("config", "check", **installation.settings, **rocketmq)
    assert "RocketMQ proxy" not in checked.out
    installation.rules.write_text(RULES + QUOTA)
    checked = run("config", "check", **installation.settings, **rocketmq)
    assert checked.code == 0
    assert "quotas do not count in the RocketMQ proxy" in checked.out


def test_a_second_key_takes_over_before_the_first_one_ends(installation: Installation) -> None:
    first = installation.key["orders-service"]
    assert installation.send("orders-service") == 201
    installation.key["orders-service"] = installation.new_key("orders-service", "--note", "the second")
    end = ("access", "keys", "end", first.split("_")[1], "--file", str(installation.keys), "--in", "1h")
    assert run(*end).code == 0
    assert wait_for(lambda: installation.send("orders-service"), lambda status: status == 201) == 201
    installation.key["orders-service"] = first
    assert installation.send("orders-service") == 201
    listed = run("access", "keys", "list", "--file", str(installation.keys)).out
    assert len(listed.splitlines()) == 4
    assert "the second" in listed
    assert first not in installation.keys.read_text()


def test_nothing_secret_is_logged_or_kept(installation: Installation) -> None:
    installation.send("orders-service")
    installation.send(None)
    secret = installation.key["orders-service"].split("_", 2)[2]
    assert secret not in installation.server.log.read_text()
    assert secret not in installation.keys.read_text()
    assert installation.keys.stat().st_mode & 0o077 == 0


def test_over_tls_clients_trust_the_certificate_and_plaintext_is_refused(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificate(tmp_path, "server", "127.0.0.1")
    server = make_server(api__certfile=str(tmp_path / "server.crt"), api__keyfile=str(tmp_path / "server.key"))
    url = server.url.replace("http:", "https:")
    server.start()
    trusting = httpx.Client(verify=ssl.create_default_context(cafile=str(tmp_path / "server.crt")), timeout=10)
    with trusting as http:
        wait_for(lambda: _status(http, f"{url}/readyz"), lambda status: status == 200)
        body = {"value": "v", "schedule": {"delay": "1ms"}}
        assert http.post(f"{url}/v1/topics/orders/messages", json=body).status_code == 201
        with pytest.raises(httpx.TransportError), http_client(5) as plain:
            plain.get(f"{server.url}/healthz")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.crt"))
        assert run("topics", url=url).code == 0
        assert f"listens on {url}" in server.log.read_text()


def _status(http: httpx.Client, url: str) -> int:
    try:
        return http.get(url).status_code
    except httpx.TransportError:
        return 0


def test_who_did_what_is_in_a_topic_that_outlasts_the_process(installation: Installation) -> None:
    """With keys by itself: acts of people, and what happened to the keys."""
    installation.rules.write_text(RULES + "\n[[rule]]\nprincipals = ['root']\ntopics = ['*']\nacts = ['admin']\n")
    installation.key["root"] = installation.new_key("root")
    assert installation.send("orders-service") == 201
    ran = wait_for(lambda: installation.command("ops/ann", "pause", "orders"), lambda ran: ran.code == 0)
    assert ran.code == 0, ran.err
    wait_for(lambda: installation.command("root", "access", "acts").out, lambda out: "keyAdded" in out)
    installation.server.kill()
    installation.server.start()
    installation.server.wait_ready()
    listed = wait_for(lambda: installation.command("root", "access", "acts"), lambda ran: "keyAdded" in ran.out)
    rows = [" ".join(row.split()) for row in listed.out.splitlines()]
    assert any("ops/ann pauseTopic orders 200" in row for row in rows), listed.out
    assert any("keyAdded" in row and "of root" in row for row in rows), listed.out
    assert "no answer known" not in listed.out
    refused = installation.command("ops/ann", "access", "acts")
    assert (refused.code, "no right to `admin` of every topic" in refused.err) == (1, True)
    narrowed = installation.command("root", "access", "acts", "--principal", "absent")
    assert narrowed.out == "no acts\n"


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "rules.toml"
    os.mkfifo(pipe)
    for command in (("explain", "ann", "send", "orders"), ("quota", "ann"), ("keys", "list")):
        ran = run("access", *command, "--file", str(pipe))
        assert (ran.code, f"cannot read {pipe}: is a pipe (FIFO), no file" in ran.err) == (2, True), ran
