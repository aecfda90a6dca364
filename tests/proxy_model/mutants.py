"""Breakages of the gate, each of which the judge must notice. `tests.mutation` explains how to write one.

Rules that only the unit tests hold, because in the model another rule makes up for their loss: `Close` instead of an
error for what may be in a log (those behind are answered the same, so that nobody begins a new epoch), asking before
a 45 of T or B is passed on, the answer to heads behind one that is to come again (both logs are asked all the same),
and what follows where T has forgotten the producer. Of an epoch that begins in the
middle: nothing before it is taken for written; what waited behind a refusal does not begin it; an earlier epoch is
fenced; what could not be split, or has a part in a log that knows nothing of the epoch, is not confirmed. And one
that only two random runs in 50,000 need (16394 and 39588): plain batches behind one that is to come again are
answered like it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, condition, constant, drop, never, part, value, without, written
from tests.proxy_model.explore import Broken, explore, wander
from tests.proxy_model.scopes import QUICK, random_scope, refusing_scope

SEEDS_MAX = 6000
REFUSALS_FIRST = 1500
_KNOWN, _GATE = "proxy.kafka.produce.sequencer.known", "proxy.kafka.produce.sequencer.gate"

MUTANTS = (
    Mutant("D never grows", "seq-D", value(part("left.left"))),
    Mutant("D does not wrap", "seq-D", value(part("left"))),
    Mutant("T's part is not shifted", "seq-shift", value(part("left.left"))),
    Mutant("T's shifted sequence does not wrap", "seq-shift", value(part("left"))),
    Mutant("distances do not wrap", "seq-wrap", value(part("left"))),
    Mutant("a head does not wait for what is before it", "seq-head", never),
    Mutant("a plain batch goes to T behind anything", "seq-plain", value(constant(True))),
    Mutant(
        "a plain batch from before the last delayed record goes to T", "seq-before", value(at("body", constant(True)))
    ),
    Mutant("plain batches go to T before it has a state", "seq-proven", without("test.values[2]")),
    Mutant("plain batches go to T before what is there is walked through", "seq-proven", without("test.values[3]")),
    Mutant("B is not asked again", "seq-rest-state", condition(part("values[0]"))),
    Mutant("sequence 0 means D = 0", "seq-zero", without("value.values[0]")),
    Mutant("what is there is not recognised", "seq-there", at("test.values[0]", constant(False))),
    Mutant("a batch is taken for there when its T part is", "seq-half", at("test.values[0]", written("${left} > 0"))),
    Mutant("only what is not begun is written", "seq-rest", at("test.values[1]", written("${left} == 0"))),
    Mutant("the order of heads is not checked", "seq-order", never),
    Mutant(
        "an epoch that succeeds another on the connection begins anywhere", "seq-earlier", without("value.values[0]")
    ),
    Mutant("an epoch begins anywhere where a log knows an earlier one", "seq-earlier", without("value.values[1]")),
    Mutant("an epoch begins with anything that comes behind what was not taken", "seq-begin", value(constant(True))),
    Mutant("an epoch never begins in the middle", "seq-begin", value(constant(False))),
    Mutant(
        "who goes on behind a refused batch is refused",
        "seq-begin",
        value(written("${left} == ${comparators[0].elts[0]}")),
    ),
    Mutant("an all delayed beginning is numbered from 0", "seq-first", value(at("args[2]", part("body")))),
    Mutant("the last batch is written again under later sequences", "seq-again", drop),
    Mutant("T is asked nothing about what is all delayed", "seq-target", without("value.values[1]")),
)


QUICKLY_CAUGHT = frozenset(
    {
        "D never grows",
        "T's part is not shifted",
        "B is not asked again",
        "what is there is not recognised",
        "a batch is taken for there when its T part is",
        "only what is not begun is written",
    }
)
"""Seconds; the others take minutes together, and are hunted by `PARTS=mutants python -m tests.proxy_model.run`."""


def build(mutant: Mutant) -> Callable[[], Any]:
    """The mutant's Gate. Raises TagError."""
    made: Callable[[], Any] = load(mutant, (_KNOWN, _GATE))[_GATE].Gate
    return made


def hunt(mutant: Mutant) -> str | None:
    """How it was caught: the trace. None if it survived."""
    made = build(mutant)
    for attempt in _attempts(made):
        try:
            attempt()
        except Broken as broken:
            return str(broken)
    return None


def _attempts(made: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Some random runs with refusals, small scopes with one fault, then random runs."""
    for seed in range(REFUSALS_FIRST):
        yield lambda seed=seed: wander(refusing_scope(seed), seed, made)
    for scope in QUICK:
        yield lambda scope=scope: explore(scope, made)
    for seed in range(SEEDS_MAX):
        yield lambda seed=seed: wander(random_scope(seed), seed, made)
        yield lambda seed=REFUSALS_FIRST + seed: wander(refusing_scope(seed), seed, made)
