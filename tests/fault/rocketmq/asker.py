"""Questions about messages that wait all the while. The truth never changes: whatever is down, an answer may be that
it is not known (503, an incomplete list), and never that such a message is not there."""

import threading
from random import Random
from typing import Any

import httpx

from tests.fault.server import http_client

PER_PARTITION = 5
DELAY = "6h"
PAGES_MAX = 20
PAUSE_S = 0.05


class Asker(threading.Thread):
    """`answers` counts those that were no 503 and no incomplete list; `wrong` describes those that hid a message."""

    def __init__(self, url: str, topic: str, partitions: int, random: Random) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._topic = topic
        self._partitions = partitions
        self._random = random
        self._waiting: dict[str, str] = {}  # own ids, by the message's id
        self.answers = 0
        self.unknown = 0
        self.wrong: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with http_client(15) as http:
            while len(self._waiting) < self._partitions * PER_PARTITION and not self.stopping.wait(PAUSE_S):
                self._place(http, len(self._waiting))
            questions = (self._find, self._find_own, self._send_again, self._list)
            while not self.stopping.wait(PAUSE_S):
                try:
                    is_known = self._random.choice(questions)(http)
                except httpx.TransportError:
                    is_known = False
                self.answers += is_known
                self.unknown += not is_known

    def _place(self, http: httpx.Client, number: int) -> None:
        """The message of this number; again until it is stored."""
        answer = self._send(http, f"waits-{number}")
        if answer is not None and answer.status_code == 201:
            self._waiting[answer.json()["message_id"]] = f"waits-{number}"

    def _send(self, http: httpx.Client, own_id: str) -> httpx.Response | None:
        partition = int(own_id.removeprefix("waits-")) % self._partitions
        message = {"key": "waits", "partition": partition, "schedule": {"own_id": own_id, "delay": DELAY}}
        try:
            return http.post(f"{self._url}/v1/topics/{self._topic}/messages", json=message)
        except httpx.TransportError:
            return None

    # --- questions: whether the answer is known

    def _find(self, http: httpx.Client) -> bool:
        message_id = self._random.choice(sorted(self._waiting))
        return self._is_known(http.get(f"{self._url}/v1/messages/{message_id}"), 200, message_id)

    def _find_own(self, http: httpx.Client) -> bool:
        message_id, own_id = self._random.choice(sorted(self._waiting.items()))
        answer = http.get(f"{self._url}/v1/topics/{self._topic}/own/{own_id}")
        return self._is_known(answer, 200, message_id)

    def _send_again(self, http: httpx.Client) -> bool:
        message_id, own_id = self._random.choice(sorted(self._waiting.items()))
        answer = self._send(http, own_id)
        return answer is not None and self._is_known(answer, 201, message_id)

    def _is_known(self, answer: httpx.Response, status: int, message_id: str) -> bool:
        if answer.status_code == 503:
            return False
        if answer.status_code != status or answer.json()["message_id"] != message_id:
            self.wrong.append(
                f"{answer.request.method} {answer.url} of {message_id}: {answer.status_code} {answer.text}"
            )
        return True

    def _list(self, http: httpx.Client) -> bool:
        found: set[str] = set()
        parameters: dict[str, Any] = {"topic": self._topic, "key": "waits", "page_size": 100}
        for _ in range(PAGES_MAX):
            answer = http.get(f"{self._url}/v1/messages", params=parameters)
            if answer.status_code == 503:
                return False
            page = answer.json()
            found |= {one["message_id"] for one in page["messages"]}
            if not page["complete"]:
                return False
            if page["next_page_token"] is None:
                break
            parameters["page_token"] = page["next_page_token"]
        else:
            return False
        if lacking := sorted(self._waiting.keys() - found):
            self.wrong.append(f"a list that is complete lacks {lacking}")
        return True
