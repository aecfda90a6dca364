"""A process whose settings hold a text of its own in each secret shows none of them: not in its log, over HTTP, to
`ps`, in what it prints."""

import re
from pathlib import Path

import pytest

from tests.acceptance.asking import HTTP, run, run_in, send
from tests.acceptance.conftest import MakeServer
from tests.secrets import Marked
from tests.unit.delayline.config.test_secrets import KINDS, marked

RULES = '[[rule]]\nprincipals = ["*"]\ntopics = ["*"]\nacts = ["read", "send", "metrics"]\n'


@pytest.fixture
def embedded(tmp_path: Path) -> Marked:
    """Files of rules and keys are there."""
    marks = marked("embedded")
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "keys.json").write_text("[]")
    marks.given |= {"access.rules": str(tmp_path / "rules.toml"), "access.keys": str(tmp_path / "keys.json")}
    return marks


def test_a_server_shows_none(make_server: MakeServer, tmp_path: Path, embedded: Marked) -> None:
    key = run("access", "keys", "create", "ann", "--file", str(tmp_path / "keys.json")).out.strip()
    file = embedded.written(tmp_path, **{"log.level": "debug"})
    server = make_server(config=str(file))
    server.start()
    server.wait_ready()
    HTTP.headers["authorization"] = f"Bearer {key}"
    try:
        send(server.url, "orders", ["hello"], delay="1h")
        pages = [HTTP.get(f"{server.url}{path}").text for path in ("/metrics", "/v1/info", "/v1/topics", "/readyz")]
    finally:
        del HTTP.headers["authorization"]
    assert "delayline_build_info" in pages[0]
    shown = Path(f"/proc/{server.pid}/cmdline").read_bytes() + Path(f"/proc/{server.pid}/environ").read_bytes()
    server.stop()
    log = server.log.read_text()
    assert re.search("listens on", log)
    for text in (*pages, shown.decode(errors="replace"), log):
        assert embedded.shown_in(text) == []


@KINDS
def test_config_check_shows_none(tmp_path: Path, kind: str, embedded: Marked) -> None:
    marks = embedded if kind == "embedded" else marked(kind)
    marks.given |= {name: embedded.given[name] for name in ("access.rules", "access.keys")}
    ran = run_in(tmp_path, "config", "check", config=str(marks.written(tmp_path)))
    assert ran.code == 0, ran.err
    assert ran.out.count("**********") >= 5
    assert marks.shown_in(ran.out + ran.err) == []


@pytest.mark.thorough
def test_the_log_of_librdkafka_shows_none(tmp_path: Path) -> None:
    marks = marked("kafka")
    marks.given["mq.properties"] |= {
        "debug": "all",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
    }
    ran = run_in(tmp_path, "doctor", config=str(marks.written(tmp_path, **{"log.level": "debug"})))
    assert "127.0.0.1:1" in ran.out
    assert marks.shown_in(ran.out + ran.err) == []
