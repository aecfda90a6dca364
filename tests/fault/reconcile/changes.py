"""A sender over HTTP that cancels and moves what it has sent, lets some of it expire and some repeat."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import httpx

from tests.fault.kafka.clients import Ledger, Mix, Sender, Writer

DONE = (200, 204)
TRIES = 6
PAUSE_S = 0.4
"""A worker that has not read a message yet does not know it."""

OCCURRENCES = 3


class Kind(StrEnum):
    CANCELLED = "to be cancelled"
    MOVED = "to be moved"
    BRIEF = "with a deadline right behind the due time"
    LASTING = "with a deadline that holds"
    REPEATED = "repeated"


SCHEDULES: dict[Kind, dict[str, Any]] = {
    Kind.CANCELLED: {"delay": "40s"},
    Kind.MOVED: {"delay": "40s"},
    Kind.BRIEF: {"delay": "500ms", "ttl": "1ms"},
    Kind.LASTING: {"delay": "1s", "ttl": "1h"},
    Kind.REPEATED: {"every": "1s", "times": OCCURRENCES},
}
ROUND = (*(Kind.CANCELLED,) * 3, *(Kind.MOVED,) * 3, Kind.BRIEF, Kind.LASTING, Kind.REPEATED)


class Changes(Sender):
    """`sent`: every tag, and its kind; `acknowledged`: those that were; `cancelled`, `moved`: those of which that was
    confirmed; `asked`: of which it was tried."""

    def __init__(self, seed: int, mix: Mix, rate: float, url: str) -> None:
        super().__init__("changes", Writer("changes", seed, mix, Ledger()), rate)
        self._url, self._http = url, httpx.Client(timeout=10, verify=False)
        self.sent: dict[bytes, Kind] = {}
        self.acknowledged: set[bytes] = set()
        self.cancelled: set[bytes] = set()
        self.moved: set[bytes] = set()
        self.asked: dict[Kind, int] = dict.fromkeys(Kind, 0)

    def send(self, count: int) -> int:
        if count < len(ROUND):
            return 0
        topic, first = self._writer.rnd.choice(self._writer.mix.topics), len(self.sent)
        tags = {f"changed-{first + number}": kind for number, kind in enumerate(ROUND)}
        self.sent |= {tag.encode(): kind for tag, kind in tags.items()}
        messages = [{"key": tag, "value": tag, "schedule": SCHEDULES[kind]} for tag, kind in tags.items()]
        answer = self._asked("POST", f"topics/{topic}/messages", {"atomic": True, "messages": messages})
        if answer is not None and answer.status_code == 201:
            ids = [one["message"]["message_id"] for one in answer.json()["results"]]
            self.acknowledged |= {tag.encode() for tag in tags}
            for (tag, kind), message_id in zip(tags.items(), ids, strict=True):
                self._change(kind, tag.encode(), message_id)
        elif answer is not None and answer.status_code < 500:
            raise AssertionError(f"{answer.status_code}: {answer.text}")
        return len(ROUND)

    def _change(self, kind: Kind, tag: bytes, message_id: str) -> None:
        if kind is Kind.CANCELLED:
            self._until_done(kind, lambda: self._asked("DELETE", f"messages/{message_id}"), self.cancelled, tag)
        elif kind is Kind.MOVED:
            to = {"schedule": {"delay": "1s"}}
            self._until_done(kind, lambda: self._asked("PATCH", f"messages/{message_id}", to), self.moved, tag)

    def _until_done(self, kind: Kind, ask: Callable[[], httpx.Response | None], done: set[bytes], tag: bytes) -> None:
        self.asked[kind] += 1
        for _ in range(TRIES):
            answer = ask()
            if answer is not None and answer.status_code in DONE:
                done.add(tag)
                return
            time.sleep(PAUSE_S)

    def _asked(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """None: no answer came."""
        try:
            return self._http.request(method, f"{self._url}/v1/{path}", json=body, headers={"delayline-request": "1"})
        except httpx.TransportError:
            time.sleep(0.2)
            return None
