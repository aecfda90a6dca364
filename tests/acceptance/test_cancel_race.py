"""Cancels that race the due instant: nobody hears one thing and gets the other.

RACES=10000 for more of them; the seed is printed.
"""

import asyncio
import os
from collections import Counter
from random import Random, SystemRandom

import httpx
import pytest

from delayline.clock import SystemClock
from tests.acceptance.asking import HTTP, delivered, numbers, wait_for
from tests.fault.server import Server

RACES = int(os.environ.get("RACES") or 1000)
PER_S = 200
"""More than a client in Python can send, on a machine that does other work, would all be too late."""
LEAD_MS, SPREAD_S = 3000, 0.15
"""How long before the first due instant all is sent, and how far around its own a message is cancelled."""
CLOCK = SystemClock()


@pytest.mark.slow
def test_a_cancel_that_is_confirmed_is_kept_and_one_that_is_refused_came_too_late(server: Server) -> None:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1 << 32))
    print(f"SEED={seed} RACES={RACES}")
    values = numbers(RACES)
    messages = _sent(server, values)
    answers = asyncio.run(_race(server, messages, Random(seed)))
    kept = {value for value, status in zip(values, answers, strict=True) if status == 409}
    found = wait_for(lambda: delivered(server.url), lambda found: len(found) >= len(kept))
    counts = Counter(answers)
    print(f"{counts[204]} cancelled, {counts[409]} too late, {RACES} chances to lie")
    assert set(counts) == {204, 409}
    assert min(counts.values()) >= RACES / 20
    assert found == sorted(kept)


def _sent(server: Server, values: list[str]) -> list[tuple[str, float]]:
    """(message id, due in epoch s) of every message; they are due one after the other."""
    first_ms = CLOCK.now_ms() + LEAD_MS
    due_ms = [first_ms + 1000 * at // PER_S for at in range(len(values))]
    found: list[tuple[str, float]] = []
    for start in range(0, len(values), 500):
        batch = list(zip(values, due_ms, strict=True))[start : start + 500]
        body = {"messages": [{"value": value, "schedule": {"deliver_at": ms}} for value, ms in batch]}
        answer = HTTP.post(f"{server.url}/v1/topics/orders/messages", json=body)
        assert answer.status_code == 201, answer.text
        ids = [result["message"]["message_id"] for result in answer.json()["results"]]
        found += [(message_id, ms / 1000) for message_id, (_, ms) in zip(ids, batch, strict=True)]
    return found


async def _race(server: Server, messages: list[tuple[str, float]], rnd: Random) -> list[int]:
    loop = asyncio.get_running_loop()
    ahead_s = CLOCK.now_ms() / 1000 - loop.time()

    async def cancel(http: httpx.AsyncClient, message_id: str, at_s: float) -> int:
        await asyncio.sleep(at_s - ahead_s - loop.time())
        answer = await http.delete(f"{server.url}/v1/messages/{message_id}")
        return answer.status_code

    async with httpx.AsyncClient(timeout=30) as http:
        moments = [(message_id, due_s + rnd.uniform(-SPREAD_S, SPREAD_S)) for message_id, due_s in messages]
        return await asyncio.gather(*(cancel(http, message_id, at_s) for message_id, at_s in moments))
