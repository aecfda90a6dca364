"""Cancels that race the due instant, and what must be true of their answers."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from random import Random, SystemRandom

import httpx

from delayline.clock import SystemClock
from tests.acceptance.asking import HTTP, numbers, wait_for

RACES = int(os.environ.get("RACES") or 1000)
PER_S = 200
"""More than a client in Python can send, on a machine that does other work, would all be too late."""
LEAD_MS = 3000
"""How long before the first due instant all is sent."""
SPREAD_S = -0.3, 0.15
"""When a message is cancelled, against its own due instant. A machine that is busy is late: it gets some lead."""
CERTAIN_S = -2.5, 2.0
"""And some of them, so that both answers are given however busy it is."""
CERTAIN = 0.1
PATIENCE_S = 120.0
CONNECTIONS = httpx.Limits(max_connections=500)  # one address gets 512 of a server's
"""While a shard has no owner, cancels wait ten seconds for it; the API takes 1024 requests at a time."""
CLOCK = SystemClock()


DELIVERED, CANCELLED, UNKNOWN = 409, 204, (202, 410, 503)
"""Answers to a cancel. That nobody knows yet, or any more, what becomes of the message is no lie either way."""


def race(
    url: str,
    topic: str,
    arrived: Callable[[], list[str]],
    races: int = RACES,
    trouble: Callable[[], AbstractContextManager[object]] = nullcontext,
    share: float = 1 / 50,
    per_s: int = PER_S,
) -> None:
    """Each message is cancelled around its due instant; `arrived` are the values in the topic, sorted.
    What was confirmed must never arrive, what was refused must, once. In `trouble`, or on a busy machine, an
    answer may be that nobody knows. Of both answers there must be this share."""
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1 << 32))
    print(f"SEED={seed} RACES={races}")
    values = numbers(races)
    messages = _sent(url, topic, values, per_s)
    with trouble():
        answers = asyncio.run(_cancelled(url, messages, Random(seed)))
    answered = dict(zip(values, answers, strict=True))
    kept = [value for value, status in answered.items() if status == DELIVERED]
    found = wait_for(arrived, lambda found: set(found) >= set(kept))
    counts = Counter(answers)
    unknown = sum(counts[status] for status in UNKNOWN)
    print(f"{counts[CANCELLED]} cancelled, {counts[DELIVERED]} too late, {unknown} unknown, {races} chances to lie")
    assert set(counts) <= {CANCELLED, DELIVERED, *UNKNOWN}, counts
    assert trouble is not nullcontext or unknown <= races / 10
    assert min(counts[CANCELLED], counts[DELIVERED]) >= races * share
    assert [value for value in found if answered[value] == CANCELLED] == []
    assert sorted(set(kept) - set(found)) == []
    assert len(found) == len(set(found))


def _sent(url: str, topic: str, values: list[str], per_s: int) -> list[tuple[str, float]]:
    """(message id, due in epoch s) of every message; they are due one after the other."""
    first_ms = CLOCK.now_ms() + LEAD_MS
    due_ms = [first_ms + 1000 * at // per_s for at in range(len(values))]
    found: list[tuple[str, float]] = []
    for start in range(0, len(values), 500):
        batch = list(zip(values, due_ms, strict=True))[start : start + 500]
        body = {"messages": [{"value": value, "schedule": {"deliver_at": ms}} for value, ms in batch]}
        answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json=body)
        assert answer.status_code == 201, answer.text
        ids = [result["message"]["message_id"] for result in answer.json()["results"]]
        found += [(message_id, ms / 1000) for message_id, (_, ms) in zip(ids, batch, strict=True)]
    return found


async def _cancelled(url: str, messages: list[tuple[str, float]], rnd: Random) -> list[int]:
    loop = asyncio.get_running_loop()
    ahead_s = CLOCK.now_ms() / 1000 - loop.time()

    async def cancel(http: httpx.AsyncClient, message_id: str, at_s: float) -> int:
        await asyncio.sleep(at_s - ahead_s - loop.time())
        answer = await http.delete(f"{url}/v1/messages/{message_id}")
        return answer.status_code

    async with httpx.AsyncClient(timeout=PATIENCE_S, limits=CONNECTIONS) as http:
        moments = [(message_id, due_s + aside_s(rnd)) for message_id, due_s in messages]
        return await asyncio.gather(*(cancel(http, message_id, at_s) for message_id, at_s in moments))


def aside_s(rnd: Random) -> float:
    """When a message is cancelled, against its own due instant."""
    return rnd.choice(CERTAIN_S) if rnd.random() < CERTAIN else rnd.uniform(*SPREAD_S)
