"""Breakages of the machine, each of which the judge must notice.

`tests.mutation` explains how to write a mutant. Most of these name things of the machine: they have it take another
way.

Not among them, because brokers make up for it: a write that is sent again under its number after its answer was lost
(the partition knows the number), and an older epoch (47) taken for written (the end of it is refused as well).
"""

from types import ModuleType

from tests.mutation.mutant import Mutant, load
from tests.mutation.operators import at, before, condition, drop, value, without, written
from tests.wire_model.play import Broken, Run

SEEDS_MAX = 20_000
_MACHINE = "kafkawire.client.transaction"

MUTANTS = (
    Mutant(
        "a write whose answer is lost is written again, under a number of its own",
        "txn-lost",
        before(
            """
            case State.WRITING, Lost(Write() as lost):
                again = self._numbered(lost.number, lost.place, 1)
                self._running.writes = tuple(
                    again if one.number == lost.number else one for one in self._running.writes
                )
                return [Step(again, again=True)]
            """
        ),
    ),
    Mutant(
        "a write whose answer is lost counts as written",
        "txn-lost",
        before("case State.WRITING, Lost(Write() as lost):\n    return self._heard_of_a_write(Done(lost))"),
    ),
    Mutant(
        "it ends before the last write is acknowledged",
        "txn-acknowledged",
        written(
            """
            if len(${test}) == 1:
                ${test.value}.waiting.clear()
                ${test}.clear()
            elif ${test}:
                return []
            """
        ),
    ),
    Mutant(
        "offsets are sent beside the writes",
        "txn-offsets-after",
        value(written("${} + [${elt.func}(CommitOffsets(self._own))]")),
    ),
    Mutant(
        "offsets whose answer is lost count as taken",
        "txn-lost",
        before("case State.OFFSETS, Lost(CommitOffsets()):\n    return self._to(State.ENDING, End(self._own))"),
    ),
    Mutant("sequences go on in the next epoch", "txn-sequences", drop),
    Mutant("a lost answer to the end counts as aborted", "txn-end-lost", value(written("self._aborts(NO_ANSWER)"))),
    Mutant("a lost answer to the end counts as committed", "txn-end-lost", value(written("self._ends(None)"))),
    Mutant(
        "a coordinator that is ending something is taken at its word",
        "txn-concurrent",
        before("case Refused(End(), ErrorCode.CONCURRENT_TRANSACTIONS):\n    return self._ends(None)"),
    ),
    Mutant(
        "no doubt is left by an end that was refused for the moment",
        "txn-doubt",
        value(written("[Step(${args[0]}, again=True)]")),
    ),
    Mutant("what is unknown is called aborted", "txn-unknown", value(at("func", written("Aborted")))),
    Mutant(
        "a gap in the sequence counts as written",
        "txn-gap",
        condition(written("${} or getattr(${args[0]}, 'code', 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER")),
    ),
    Mutant("an end whose epoch is over counts as committed", "txn-not-ended", value(written("self._ends(None)"))),
    Mutant("an epoch that was in doubt is kept where ends do not raise it", "txn-doubted", without("test.values[0]")),
    Mutant("an epoch that was aborted is kept", "txn-let-go", written("self.state = State.READY")),
    Mutant("the epoch that an end has raised is not taken over", "txn-raised", drop),
    Mutant(
        "what was refused for good is written without",
        "txn-refused",
        written("del running.waiting[${value.args[0].value}.number]\nreturn self._written_or_again()"),
    ),
    Mutant(
        "a write that was refused for the moment takes another number",
        "txn-same-number",
        at("args[0]", written("self._numbered(${slice}, ${}.place, 1)")),
    ),
)


def build(mutant: Mutant) -> ModuleType:
    """The machine with the mutant in it. Raises TagError."""
    return load(mutant, (_MACHINE,))[_MACHINE]


def hunt(mutant: Mutant, seeds_max: int = SEEDS_MAX) -> str | None:
    """How it was caught: the trace. None if it survived."""
    module = build(mutant)
    for seed in range(seeds_max):
        try:
            Run(seed, module).play()
        except Broken as broken:
            return str(broken)
    return None
