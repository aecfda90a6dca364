"""The doctor asks a server that is up what it does not heed."""

import httpx
import pytest

from cli.machine_doctor import unheeded
from delayline.config import Settings

SEEN = {"header": "delay", "why": "topic-not-enabled", "seen": 3, "detail": "the topic takes no delays"}
ANSWERS = {
    "/v1/topics": {"topics": [{"name": "mail"}, {"name": "orders"}]},
    "/v1/topics/mail": {"unheeded": [SEEN]},
    "/v1/topics/orders": {"unheeded": []},
}


def test_each_header_that_is_not_heeded_is_a_warning_about_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=ANSWERS[request.url.path]))
    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**options, transport=transport))
    [finding] = unheeded(Settings())
    assert (finding.level, finding.check) == ("warn", "headers of mail")
    assert finding.detail == "header delay, seen 3 times: the topic takes no delays"


def test_where_no_server_is_up_there_is_no_finding() -> None:
    assert list(unheeded(Settings.model_validate({"api": {"port": 1}}))) == []
