"""What a worker's process answers to others."""

import asyncio
from typing import Any

import httpx
import pytest

from delay_service.query.owners import wire
from delay_service.query.owners.listener import OwnerRequestHandler
from delay_service.query.owners.methods import METHODS
from delay_service.query.owners.signing import Signer
from delay_service.query.owners.wire import Status
from delayline.buffer.outcome import Outcome
from delayline.clock import ManualClock
from delayline.questions.inquiry import OwnerUnavailable, Resolution
from mq.errors import QueueUnavailable
from tests.unit.delay_service.query.owners.people import FOUND, ID, ONE, SHARD, Worker

SECRET = "sixteen letters!"
FIND, DECIDED = METHODS["find"], METHODS["decided"]
QUESTION = FIND.encode_question((ID,))


class Asking:
    """A desk before a worker that owns SHARD."""

    def __init__(self) -> None:
        self.worker = Worker(ONE.writer, SHARD)
        self.clock = ManualClock()
        self.signer = Signer(SECRET, self.clock)
        self.app = OwnerRequestHandler(self.worker, Signer(SECRET, self.clock), self.clock).app

    def ask(
        self,
        method: str = "find",
        body: bytes = QUESTION,
        *,
        writer: str = ONE.writer,
        wait_s: float = 0.0,
        signer: Signer | None = None,
        path: str = "",
    ) -> httpx.Response:
        path = path or wire.path(writer, method, wait_s)
        headers = {wire.SIGNATURE: (signer or self.signer).sign(path, body)}

        async def main() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://worker") as http:
                return await http.post(path, content=body, headers=headers)

        return asyncio.run(main())


def test_a_signed_question_is_answered_by_the_worker() -> None:
    asking = Asking()
    asking.worker.answers["find", ID] = FOUND
    answer = asking.ask()
    assert (answer.status_code, FIND.decode_answer(answer.content)) == (Status.ANSWER, FOUND)


def test_an_operation_is_waited_for() -> None:
    asking = Asking()
    asking.worker.answers["decided", (SHARD, 7)] = Resolution(Outcome.APPLIED)
    answer = asking.ask("decided", DECIDED.encode_question((SHARD, 7)), wait_s=5)
    assert (answer.status_code, DECIDED.decode_answer(answer.content)) == (Status.ANSWER, Resolution(Outcome.APPLIED))


def test_without_the_secret_nothing_is_answered_and_nothing_asked() -> None:
    asking = Asking()
    for signer in (Signer("another secret!!", asking.clock), Signer("", asking.clock)):
        answer = asking.ask(signer=signer)
        assert answer.status_code == Status.UNSIGNED
    assert asking.ask("nonsense", signer=signer).status_code == Status.UNSIGNED
    assert asking.worker.open == []


def test_a_process_that_got_the_address_of_one_that_is_gone_is_not_taken_for_it() -> None:
    asking = Asking()
    asking.worker.answers["find", ID] = FOUND
    assert asking.ask(writer="delayline-worker-0").status_code == Status.NOT_MINE


def test_a_worker_answers_for_its_own_shards_only() -> None:
    asking = Asking()
    asking.worker.answers["find", ID] = FOUND
    asking.worker.shards.clear()
    assert asking.ask().status_code == Status.NOT_MINE


def test_a_question_that_this_version_does_not_know_is_refused() -> None:
    assert Asking().ask("nonsense").status_code == Status.NO_SUCH_METHOD
    assert Asking().ask("owns").status_code == Status.NO_SUCH_METHOD
    assert Asking().ask(path="/").status_code == Status.NO_SUCH_METHOD


@pytest.mark.parametrize("body", [b"", b"\x91\x01", DECIDED.encode_question((SHARD, 7))])
def test_bytes_that_are_no_question_are_refused(body: bytes) -> None:
    assert Asking().ask(body=body).status_code == Status.MALFORMED


def test_a_question_is_small() -> None:
    assert Asking().ask(body=bytes(wire.QUESTION_BYTES_MAX)).status_code == Status.MALFORMED
    assert Asking().ask(body=bytes(wire.QUESTION_BYTES_MAX + 1)).status_code == Status.TOO_LARGE


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (OwnerUnavailable("being taken over"), Status.UNAVAILABLE),
        (QueueUnavailable("no brokers"), Status.QUEUE_UNAVAILABLE),
        (ZeroDivisionError("secret"), Status.FAILED),
    ],
)
def test_the_reason_why_a_worker_has_no_answer_is_reported(failure: Exception, status: Status) -> None:
    asking = Asking()
    asking.worker.answers["find", ID] = failure
    answer = asking.ask()
    assert answer.status_code == status
    assert (str(failure) in answer.text) == (status != Status.FAILED)


def test_an_answer_that_does_not_come_in_time_can_still_come_for_others() -> None:
    asking = Asking()
    assert asking.ask(wait_s=0).status_code == Status.NOT_YET
    (future,) = asking.worker.open
    assert not future.cancelled()
    future.set_result(None)


def test_whoever_waits_hears_that_the_shard_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_service.query.owners.local.LOOK_AGAIN_S", 0.001)
    asking = Asking()
    looks: list[Any] = []
    monkeypatch.setattr(asking.worker, "owns", lambda shard: looks.append(shard) or len(looks) < 5)
    assert asking.ask(wait_s=30).status_code == Status.NOT_MINE
    assert len(looks) == 5


def test_whoever_goes_away_before_the_question_is_whole_is_no_error_of_the_worker() -> None:
    asking, sent = Asking(), []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "http", "method": "POST", "path": wire.path(ONE.writer, "find", 0.0), "headers": []}
    asyncio.run(asking.app({**scope, "query_string": b""}, receive, send))
    assert sent[0] == "http.response.start"
    assert asking.worker.open == []
