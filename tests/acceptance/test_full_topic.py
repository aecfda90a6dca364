"""A topic with as many waiting messages as it may have, on a real worker: what adds none is answered as ever."""

from typing import Any

import httpx
import pytest

from tests.acceptance.asking import HTTP, wait_for
from tests.acceptance.conftest import MakeServer
from tests.fault.server import Server

KEY = {"Idempotency-Key": "9b2e"}
REQUEST = {"value": 1, "schedule": {"delay": "1h"}}
OWN = {"value": 2, "schedule": {"delay": "1h", "own_id": "mine"}}


def send(server: Server, body: Any, topic: str = "full", **headers: str) -> httpx.Response:
    return HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=body, headers=headers)


@pytest.fixture
def limited(make_server: MakeServer) -> Server:
    server = make_server(delay__rule='[{"topics": "*", "pending_max": 4}]')
    server.start()
    server.wait_ready()
    return server


def test_a_full_topic_answers_what_it_has_stored_and_takes_what_it_replaces(limited: Server) -> None:
    first, own = send(limited, REQUEST, **KEY).json(), send(limited, OWN).json()
    fill = {"value": 0, "schedule": {"delay": "1h"}}
    wait_for(lambda: send(limited, fill).status_code, lambda status: status == 429)

    again = send(limited, REQUEST, **KEY)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    assert again.json()["message_id"] == first["message_id"]
    assert send(limited, {**REQUEST, "value": 9}, **KEY).status_code == 422
    assert send(limited, OWN).json()["message_id"] == own["message_id"]
    assert send(limited, {"messages": [OWN, OWN]}).status_code == 201
    assert send(limited, fill).status_code == 429
    replacing = {"value": 3, "schedule": {"delay": "2h", "own_id": "mine", "on_conflict": "replace"}}
    assert send(limited, replacing).json()["deduplicated"] is False
    loose = send(limited, {"atomic": False, "messages": [fill, OWN, fill]}).json()
    assert [member["status"] for member in loose["results"]] == [429, 201, 429]


def test_a_batch_does_not_pass_the_limit(limited: Server) -> None:
    one = {"value": 0, "schedule": {"delay": "1h"}}
    assert send(limited, one, "batch").status_code == 201
    wait_for(lambda: HTTP.get(f"{limited.url}/v1/topics/batch").json()["pending"], lambda pending: pending == 1)
    five = {"messages": [one] * 5}
    refused = "1 messages wait for batch, its limit is 4: there is room for 3 more, not for 5"
    assert wait_for(lambda: send(limited, five, "batch").json().get("detail"), lambda why: why == refused) == refused
    loose = send(limited, {"atomic": False, "messages": [one] * 5}, "batch").json()
    assert [member["status"] for member in loose["results"]] == [201] * 3 + [429] * 2
