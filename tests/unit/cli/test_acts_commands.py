"""`delayline access acts`: what a table shows of lines about acts."""

from typing import Any

import pytest
from typer.testing import CliRunner

from cli.http_client import HttpClient
from cli.main import app

LINE = {"at": "2026-01-01T00:00:00.000Z", "principal": "eve", "operation": "purgeTopic", "topic": None}


def shown(monkeypatch: pytest.MonkeyPatch, *lines: dict[str, Any]) -> list[str]:
    page = {"acts": [{**LINE, **line} for line in lines], "next_before": None, "kept": True}
    monkeypatch.setattr(HttpClient, "get", lambda *_, **__: page)
    return CliRunner().invoke(app, ["access", "acts"]).output.splitlines()[1:]


def test_an_act_is_one_row_with_what_was_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"act": "a-1", "body": '{"filter":{"topic":"orders"}}'}
    rows = shown(monkeypatch, {"event": "answered", "status": 200, **about}, {"event": "asked", **about})
    assert len(rows) == 1
    assert rows[0].split() == [LINE["at"], "eve", "purgeTopic", "200", about["body"]]


def test_a_refused_request_shows_how_many_were_left_out_before(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = shown(monkeypatch, {"event": "refused", "act": "a-1", "status": 403, "left_out": 15})
    assert row.rstrip().endswith("403     15 more were refused")
