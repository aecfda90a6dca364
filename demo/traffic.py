"""An hour of messages: sent, cancelled, moved, repeated, all within their windows of five minutes."""

import random
from typing import Any, NamedTuple

from demo.running import Server

ROUNDS = 12
STEP_MS = 300_000
PARTITIONS = 4
TOPICS = {"orders": 160, "cart-reminders": 60, "payment-retries": 30}
"""How many messages a round sends to each."""
CANCELS, MOVES = 2, 2
REPEATING, OCCURRENCES = (0, 6), 2
"""Only in these rounds: a repeat takes a second at least."""


class Chosen(NamedTuple):
    """Messages that the play is going to do something to; all of them wait."""

    to_be_lost: list[str]
    to_be_early: list[str]
    cancelled: list[str]


def pin(server: Server) -> None:
    """A message for each shard that waits for a month: so that there are always some that wait, and nothing of the
    buffer is deleted meanwhile."""
    for topic in TOPICS:
        server.send(topic, [_message(p, "30d", partition=p) for p in range(PARTITIONS)])


def send_round(server: Server, number: int, awaited: int = 0) -> list[str]:
    """Returns when all of it has ended, and `awaited` messages that were sent before; the ids that were cancelled."""
    rnd = random.Random(number)
    cancelled: list[str] = []
    for topic, count in TOPICS.items():
        sent = [_message(n, f"{rnd.randrange(20, 300)}ms") for n in range(count)]
        server.send(topic, sent)
        later = server.send(topic, [_message(n, "20m") for n in range(CANCELS + MOVES)])
        for message_id in later[:CANCELS]:
            server.ask("DELETE", f"/v1/messages/{message_id}")
        for message_id in later[CANCELS:]:
            server.ask("PATCH", f"/v1/messages/{message_id}", {"schedule": {"delay": "200ms"}})
        awaited += count + MOVES
        if number in REPEATING:
            server.send(topic, [_message(0, "1s", schedule={"every": "1s", "times": OCCURRENCES})])
            awaited += OCCURRENCES
        cancelled += later[:CANCELS]
    server.wait_for_deliveries(awaited)
    return cancelled


def send_late(server: Server, count: int) -> None:
    """Messages that fall due while the clock is being put forward: as if the worker had been away."""
    server.send("cart-reminders", [_message(n, "2m") for n in range(count)])


def send_waiting(server: Server, count: int) -> list[str]:
    """Messages that will fall due in a round to come."""
    return server.send("orders", [_message(n, "8m") for n in range(count)])


def _message(number: int, delay: str | None, **fields: Any) -> dict[str, Any]:
    return {"key": f"customer-{number % 97}", "value": {"n": number}, "schedule": {"delay": delay}, **fields}
