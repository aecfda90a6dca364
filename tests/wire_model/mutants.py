"""Breakages of the machine, each of which the judge must notice.

A mutant replaces exact source, compiles the result and hands out the module; nothing on disk changes. Source that is
no longer there, or there twice, is an error: whoever rewrites a rule also looks at what proves it.

Not among them, because brokers make up for it: a write that is sent again under its number after its answer was lost
(the partition knows the number), and an older epoch (47) taken for written (the end of it is refused as well).
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from mq.kafka.direct import transaction
from tests.wire_model.play import Broken, Run

SEEDS_MAX = 20_000
_MUTATED = "tests.wire_model.mutated_transaction"


class LineIsGone(Exception):
    """The source does not have what a mutant replaces exactly once."""


class Mutant(NamedTuple):
    """`broken` says which rule no longer holds."""

    broken: str
    source: str
    replacement: str


MUTANTS = (
    Mutant(
        "a write whose answer is lost is written again, under a number of its own",
        """            case _, Lost(request) if self._is_under_way(request):
""",
        """            case State.WRITING, Lost(Write() as lost):
                again = self._numbered(lost.number, lost.place, 1)
                self._running.writes = tuple(
                    again if one.number == lost.number else one for one in self._running.writes
                )
                return [Step(again, again=True)]
            case _, Lost(request) if self._is_under_way(request):
""",
    ),
    Mutant(
        "a write whose answer is lost counts as written",
        """            case _, Lost(request) if self._is_under_way(request):
""",
        """            case State.WRITING, Lost(Write() as lost):
                return self._heard_of_a_write(Done(lost))
            case _, Lost(request) if self._is_under_way(request):
""",
    ),
    Mutant(
        "it ends before the last write is acknowledged",
        """        if running.in_flight:
            return []
        if running.refused:""",
        """        if len(running.in_flight) == 1:
            running.waiting.clear()
            running.in_flight.clear()
        elif running.in_flight:
            return []
        if running.refused:""",
    ),
    Mutant(
        "offsets are sent beside the writes",
        "        return [Step(write) for write in self._running.writes]",
        "        return [Step(write) for write in self._running.writes] + [Step(CommitOffsets(self._own))]",
    ),
    Mutant(
        "offsets whose answer is lost count as taken",
        """            case _, Lost(request) if self._is_under_way(request):
""",
        """            case State.OFFSETS, Lost(CommitOffsets()):
                return self._to(State.ENDING, End(self._own))
            case _, Lost(request) if self._is_under_way(request):
""",
    ),
    Mutant(
        "sequences go on in the next epoch",
        """        self.identity = identity
        self._sequences.clear()
""",
        """        self.identity = identity
""",
    ),
    Mutant(
        "a lost answer to the end counts as aborted",
        """            case Lost(End() as request):
                return self._doubts(request, elsewhere=True)
""",
        """            case Lost(End()):
                return self._aborts(NO_ANSWER)
""",
    ),
    Mutant(
        "a lost answer to the end counts as committed",
        """            case Lost(End() as request):
                return self._doubts(request, elsewhere=True)
""",
        """            case Lost(End()):
                return self._ends(None)
""",
    ),
    Mutant(
        "a coordinator that is ending something is taken at its word",
        "            case Refused(End() as request, code):\n",
        "            case Refused(End(), ErrorCode.CONCURRENT_TRANSACTIONS):\n"
        "                return self._ends(None)\n"
        "            case Refused(End() as request, code):\n",
    ),
    Mutant(
        "no doubt is left by an end that was refused for the moment",
        """                self._running.last = code
                return self._doubts(request, elsewhere=code not in _AGAIN)
""",
        """                self._running.last = code
                return [Step(request, again=True)]
""",
    ),
    Mutant(
        "what is unknown is called aborted",
        "        self.outcome = Unknown(code)",
        "        self.outcome = Aborted(code)",
    ),
    Mutant(
        "a gap in the sequence counts as written",
        """        if isinstance(event, Done):
            del running.waiting[write.number]
            return self._written_or_again()
""",
        """        if isinstance(event, Done) or getattr(event, "code", 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            del running.waiting[write.number]
            return self._written_or_again()
""",
    ),
    Mutant(
        "an end whose epoch is over counts as committed",
        """            case Refused(End(), code) if code in _NOT_ENDED:
                return self._gives_up(code)
""",
        """            case Refused(End(), code) if code in _NOT_ENDED:
                return self._ends(None)
""",
    ),
    Mutant(
        "an epoch that was in doubt is kept where ends do not raise it",
        "        elif doubted or self.implicit:\n",
        "        elif self.implicit:\n",
    ),
    Mutant(
        "an epoch that was aborted is kept",
        """        self._let_go()
        self.outcome = Aborted(code, refused)
""",
        """        self.state = State.READY
        self.outcome = Aborted(code, refused)
""",
    ),
    Mutant(
        "the epoch that an end has raised is not taken over",
        """        if identity is not None:
            self._takes(identity)
""",
        """        if identity is not None:
            pass
""",
    ),
    Mutant(
        "what was refused for good is written without",
        """        if code in _OF_PLACE:
            running.refused.setdefault(write.place, code)
""",
        """        if code in _OF_PLACE:
            del running.waiting[write.number]
            return self._written_or_again()
""",
    ),
    Mutant(
        "a write that was refused for the moment takes another number",
        """            Step(running.writes[number], again=True, elsewhere=code not in _AGAIN)
""",
        """            Step(
                self._numbered(number, running.writes[number].place, 1), again=True, elsewhere=code not in _AGAIN
            )
""",
    ),
)


def build(mutant: Mutant) -> ModuleType:
    """The mutant."""
    source = Path(str(transaction.__file__)).read_text()
    if source.count(mutant.source) != 1:
        raise LineIsGone(f"{source.count(mutant.source)} times in transaction.py: {mutant.source!r}")
    module = ModuleType(_MUTATED)
    sys.modules[_MUTATED] = module  # dataclasses look their module up
    exec(
        compile(source.replace(mutant.source, mutant.replacement), "mutated transaction.py", "exec"), module.__dict__
    )
    return module


def hunt(mutant: Mutant, seeds_max: int = SEEDS_MAX) -> str | None:
    """How it was caught: the trace. None if it survived."""
    module = build(mutant)
    for seed in range(seeds_max):
        try:
            Run(seed, module).play()
        except Broken as broken:
            return str(broken)
    return None
