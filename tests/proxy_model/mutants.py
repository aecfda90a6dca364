"""One-line breakages of the gate, each of which the judge must notice.

A mutant replaces exact source lines, compiles the result and hands out its `Gate`; nothing on disk changes. A line
that is no longer there, or there twice, is an error: whoever rewrites a rule also looks at what proves it.

Rules that only the unit tests hold, because in the model another rule makes up for their loss: `Close` instead of an
error for what may be in a log (those behind are answered the same, so that nobody begins a new epoch), asking before
a 45 of T or B is passed on, the answer to heads behind one that is to come again (both logs are asked all the same),
and what follows where T has forgotten the producer. Of an epoch that begins in the
middle: nothing before it is taken for written; what waited behind a refusal does not begin it; an earlier epoch is
fenced; what could not be split, or has a part in a log that knows nothing of the epoch, is not confirmed. And one
that only two random runs in 50,000 need (16394 and 39588): plain batches behind one that is to come again are
answered like it.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from proxy.kafka.sequencer import gate, known
from tests.proxy_model.explore import Broken, explore, wander
from tests.proxy_model.scopes import QUICK, random_scope, refusing_scope

SEEDS_MAX = 6000
REFUSALS_FIRST = 1500
_KNOWN, _GATE = "tests.proxy_model.mutated_known", "tests.proxy_model.mutated_gate"


class LineIsGone(Exception):
    """The source does not have the line that a mutant replaces exactly once."""


class Mutant(NamedTuple):
    """`broken` says which rule no longer holds."""

    broken: str
    line: str
    replacement: str


MUTANTS = (
    Mutant("D never grows", "(self._known.buffered + batch.delayed) % SEQUENCES", "self._known.buffered"),
    Mutant(
        "D does not wrap",
        "(self._known.buffered + batch.delayed) % SEQUENCES",
        "self._known.buffered + batch.delayed",
    ),
    Mutant(
        "T's part is not shifted",
        "return (batch.base_sequence - self._known.buffered) % SEQUENCES",
        "return batch.base_sequence",
    ),
    Mutant(
        "T's shifted sequence does not wrap",
        "return (batch.base_sequence - self._known.buffered) % SEQUENCES",
        "return batch.base_sequence - self._known.buffered",
    ),
    Mutant("distances do not wrap", "forward = (end - start) % SEQUENCES", "forward = end - start"),
    Mutant("a head does not wait for what is before it", "if not flies and self._flying:", "if False:"),
    Mutant(
        "a plain batch goes to T behind anything",
        "return known.plain_up_to(batch.base_sequence)",
        "return True",
    ),
    Mutant(
        "a plain batch from before the last delayed record goes to T",
        "return self.buffered == 0 if away < 0 else",
        "return True if away < 0 else",
    ),
    Mutant("plain batches go to T before it has a state", "or not known.proven or known.ahead", "or known.ahead"),
    Mutant(
        "plain batches go to T before what is there is walked through",
        "or not known.proven or known.ahead",
        "or not known.proven",
    ),
    Mutant(
        "B is not asked again",
        "self._step is _Step.ASK_AGAIN and before is not None and event.next_sequence == before.next_sequence",
        "self._step is _Step.ASK_AGAIN",
    ),
    Mutant(
        "sequence 0 means D = 0",
        "begins = self._succeeds and batch.base_sequence == 0",
        "begins = batch.base_sequence == 0",
    ),
    Mutant("what is there is not recognised", "elif known.ahead > batch.count and", "elif False and"),
    Mutant(
        "a batch is taken for there when its T part is",
        "elif known.ahead == batch.count and",
        "elif known.ahead > 0 and",
    ),
    Mutant("only what is not begun is written", "known.ahead in (0, batch.immediate)", "known.ahead == 0"),
    Mutant("the order of heads is not checked", "elif away or known.doubt is not None:", "elif False:"),
    Mutant(
        "an epoch that succeeds another on the connection begins anywhere",
        "earlier = self._succeeds or any(",
        "earlier = any(",
    ),
    Mutant(
        "an epoch begins anywhere where a log knows an earlier one",
        "self._succeeds or any(told.other_epoch >= 0 for told in self._told.values())",
        "self._succeeds",
    ),
    Mutant(
        "an epoch begins with anything that comes behind what was not taken",
        "return batch.base_sequence in (self._first, self._passed)",
        "return True",
    ),
    Mutant(
        "an epoch never begins in the middle",
        "return batch.base_sequence in (self._first, self._passed)",
        "return False",
    ),
    Mutant(
        "who goes on behind a refused batch is refused",
        "return batch.base_sequence in (self._first, self._passed)",
        "return batch.base_sequence == self._first",
    ),
    Mutant(
        "an all delayed beginning is numbered from 0",
        "0 if batch.immediate else at",
        "0",
    ),
    Mutant(
        "the last batch is written again under later sequences",
        "known.buffered = (known.buffered - batch.delayed) % SEQUENCES",
        "pass",
    ),
    Mutant(
        "T is asked nothing about what is all delayed",
        "return not self._thorough and batch.immediate > 0 and self._next_of(Side.BUFFER) is None",
        "return not self._thorough and self._next_of(Side.BUFFER) is None",
    ),
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
    """The mutant's Gate."""
    sources = [Path(str(module.__file__)).read_text() for module in (known, gate)]
    times = sum(source.count(mutant.line) for source in sources)
    if times != 1:
        raise LineIsGone(f"{times} times in the sequencer: {mutant.line!r}")
    mutated = [source.replace(mutant.line, mutant.replacement) for source in sources]
    _module(_KNOWN, mutated[0])
    made: Callable[[], Any] = _module(_GATE, mutated[1].replace(known.__name__, _KNOWN)).Gate
    return made


def _module(name: str, source: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(source, name, "exec"), module.__dict__)
    return module


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
