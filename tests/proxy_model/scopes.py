"""The scopes that are searched."""

import random

from proxy.kafka.produce.sequencer import SEQUENCES
from tests.proxy_model.scope import ONE_CONNECTION, REFUSED, Fault, Habit, Scope, Start

BOTH = (Habit.JAVA, Habit.LIBRDKAFKA)
NEW = Start()
STARTS = (
    NEW,
    Start(7, 4, 3),
    Start(7, 7, None),
    Start(7, None, 7),
    Start(SEQUENCES - 2, SEQUENCES - 5, 3),
    Start(SEQUENCES - 2, 2, SEQUENCES - 4),
    Start(SEQUENCES - 3, SEQUENCES - 3, None),
    Start(0, SEQUENCES - 3, 3),
)
"""A new producer; one that is known to both logs, to T alone, to B alone; and four about to begin again at 0, or just
there, with T, B or neither about to do so themselves."""

SMALL = (("id",), ("id", "di"), ("i", "d"), ("d", "i"), ("d", "d"))
MEDIUM = (("id", "dd", "di"), ("ii", "d", "i"), ("d", "i", "d"), ("i", "i", "id"), ("id", "i", "i"), ("d", "d", "d"))
LARGE = (*MEDIUM, ("i", "id", "i", "d"), ("id", "d", "i", "di"), ("i", "i", "d", "i", "i"))

QUICK = (
    *(Scope(("id", "di"), habit, start=start) for start in STARTS for habit in BOTH),
    *(Scope(script, habit) for script in (("ii", "d", "i"), ("d", "i", "i"), ("i", "i", "id")) for habit in BOTH),
)
"""Every crash point of these takes seconds."""
LONG = tuple(Scope(script, habit, start=start) for start in STARTS for script in LARGE for habit in BOTH)
"""A second each."""
DOUBLE = (
    *(Scope(script, habit, budget=2) for script in (*SMALL, *MEDIUM) for habit in BOTH),
    *(Scope(script, habit, in_flight=2, budget=2, start=STARTS[4]) for script in SMALL for habit in BOTH),
)
"""Two faults at any two points: up to minutes each."""


FORGOTTEN = (Start(7), Start(7, epoch=1), Start(0, 4, 3, epoch=1), Start(0, None, 7, epoch=1))
"""Nothing is known any more of a producer that goes on, also of one in a later epoch; a later epoch begins."""

REFUSALS = (("!i", "id", "i"), ("!id", "d", "d"), ("?i", "d", "i"), ("i", "!i", "id", "d"), ("d", "?id", "id"))
"""Refused at once, and behind something that is taken."""


def refusing_scope(seed: int) -> Scope:
    """Refusals of both kinds, the client of any habit, from anywhere. T has a new leader now and then, if it knows
    the producer; else it may take a later batch first, and nothing keeps what that means beyond a connection."""
    choose = random.Random(f"refusals {seed}")
    script = [_letters(choose) for _ in range(choose.randint(2, 7))]
    for _ in range(choose.randint(0, 2)):
        at = choose.choice((0, choose.randrange(len(script))))
        script[at] = choose.choice("!?" if "i" in script[at].lstrip(REFUSED) else "!") + script[at].lstrip(REFUSED)
    habit, start = choose.choice(list(Habit)), choose.choice((NEW, NEW, *STARTS, *FORGOTTEN))
    moves = habit is Habit.JAVA and start.target is not None and choose.random() < 0.5
    return Scope(
        tuple(script),
        habit,
        in_flight=choose.randint(1, 5),
        faults=frozenset(Fault) if moves else ONE_CONNECTION,
        budget=choose.choice((0, 0, 1, 2, 3, 4)),
        start=start,
    )


def random_scope(seed: int) -> Scope:
    """Three to twelve batches of up to four records, up to five in flight, up to ten faults."""
    choose = random.Random(~seed)
    script = tuple(_letters(choose) for _ in range(choose.randint(3, 12)))
    return Scope(
        script,
        choose.choice(BOTH),
        in_flight=choose.randint(1, 5),
        budget=choose.randint(0, 10),
        start=choose.choice(STARTS),
    )


def _letters(choose: random.Random) -> str:
    """Plain, mixed and all delayed in about equal parts."""
    alphabet = choose.choice(("i", "id", "d"))
    return "".join(choose.choice(alphabet) for _ in range(choose.randint(1, 4)))
