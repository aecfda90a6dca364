"""The promise, seen from outside: what was answered 201 arrives exactly once and never early, whatever is killed.

Senders talk HTTP to a server that is killed again and again with SIGKILL at random moments, while messages are being
accepted, indexed and delivered. At the end the target topic is read over HTTP and compared with the senders' own log
of acknowledgements. The machine's clock is the broker's clock here, so 'early' is exact.
"""

import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import httpx

from tests.fault.server import Server, http_client, read_topic
from tests.tiers import THOROUGH

KILLS = int(os.environ.get("KILLS", "0")) or (20 if THOROUGH else 6)
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
SENDERS = 3
DRAIN_WITHIN_S = 40.0


def epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@dataclass
class Sent:
    """What the senders know: tag -> due time for acknowledged messages, tags whose fate they never learned."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


class Sender(threading.Thread):
    """Sends batches with random delays until it is stopped; an answer that never came leaves its tags unknown."""

    def __init__(self, number: int, url: str, sent: Sent, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        self._number, self._url, self._sent, self._lock = number, url, sent, lock
        self._random = random.Random(SEED * 31 + number)
        self.stopping = threading.Event()
        self.failure: str | None = None

    def run(self) -> None:
        batch = 0
        with httpx.Client(timeout=3) as http:
            while not self.stopping.is_set():
                batch += 1
                self._send(http, [f"{self._number}-{batch}-{i}" for i in range(self._random.choice([1, 5, 40]))])

    def _send(self, http: httpx.Client, tags: list[str]) -> None:
        messages = [self._message(tag) for tag in tags]
        try:
            answer = http.post(f"{self._url}/v1/topics/orders/messages", json={"atomic": True, "messages": messages})
        except httpx.TransportError:
            with self._lock:
                self._sent.unknown.update(tags)
            time.sleep(0.05)
            return
        if answer.status_code == 201:
            results = answer.json()["results"]
            due = {tag: epoch_ms(result["message"]["due_at"]) for tag, result in zip(tags, results, strict=True)}
            with self._lock:
                self._sent.acknowledged.update(due)
        elif answer.status_code == 503:
            with self._lock:
                self._sent.unknown.update(tags)
            time.sleep(0.05)
        else:
            self.failure = f"{answer.status_code}: {answer.text}"
            return

    def _message(self, tag: str) -> dict[str, object]:
        delay_ms = self._random.choice([1, 20, 300, 1500, 2500, 4000])
        if self._random.random() < 0.1:
            past_ms = round(time.time() * 1000) - self._random.randrange(60_000)
            return {"key": tag, "value": tag, "schedule": {"deliver_at": past_ms}}
        return {"key": tag, "value": tag, "schedule": {"delay_ms": delay_ms}}


def read_target(url: str) -> list[tuple[str, int, int]]:
    """(tag, due, moment of delivery) of every record in the target topic."""
    found: list[tuple[str, int, int]] = []
    for record in read_topic(url, "orders"):
        headers = {header["name"]: header["value"] for header in record["headers"]}
        found.append((record["value"], int(headers["delayline-due"]), epoch_ms(record["timestamp"])))
    return found


def pending(http: httpx.Client, url: str) -> float:
    lines = http.get(f"{url}/metrics").text.splitlines()
    names = ("delayline_pending_messages{", "delayline_ingest_lag_records{")
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


def wait_drained(server: Server) -> None:
    deadline = time.monotonic() + DRAIN_WITHIN_S
    quiet = 0
    with http_client(5) as http:
        while quiet < 5:
            assert time.monotonic() < deadline, f"not drained; the log ends:\n{server.tail_of_log()}"
            quiet = quiet + 1 if pending(http, server.url) == 0 else 0
            time.sleep(0.25)


def test_what_was_acknowledged_arrives_exactly_once_and_never_early_through_sigkills(tmp_path: Path) -> None:
    print(f"SEED={SEED} KILLS={KILLS}")
    server = Server(tmp_path / "data", store__near_due="1s")
    sent, lock, rng = Sent(), threading.Lock(), random.Random(SEED)
    server.start()
    server.wait_ready()
    senders = [Sender(n, server.url, sent, lock) for n in range(SENDERS)]
    for sender in senders:
        sender.start()
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.2, 1.5))
            server.kill()
            server.start()
            server.wait_ready()
        time.sleep(0.5)
        for sender in senders:
            sender.stopping.set()
        for sender in senders:
            sender.join(timeout=10)
            assert sender.failure is None
        wait_drained(server)
        delivered = read_target(server.url)
    finally:
        server.stop()
    times = Counter(tag for tag, _, _ in delivered)
    lost = [tag for tag in sent.acknowledged if tag not in times]
    repeated = [tag for tag, count in times.items() if count > 1]
    early = [(tag, at - due) for tag, due, at in delivered if at < due]
    foreign = [tag for tag in times if tag not in sent.acknowledged and tag not in sent.unknown]
    wrong_due = [tag for tag, due, _ in delivered if sent.acknowledged.get(tag, due) != due]
    print(
        f"acknowledged {len(sent.acknowledged)}, fate unknown {len(sent.unknown)}, delivered {len(delivered)}, "
        f"lost {len(lost)}, twice {len(repeated)}, early {len(early)}"
    )
    assert (lost, repeated, early, foreign, wrong_due) == ([], [], [], [], [])
    assert len(sent.acknowledged) > 20 * KILLS, "too little load for the kills to mean anything"
