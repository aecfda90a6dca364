"""Mutants of what operators have had skipped. See `mutants`.

That an index which may hold what was skipped is rebuilt is not among them: the search meets that too rarely. A test
of its own shows it (tests/unit/delay_service/worker/test_way_out.py).
"""

from tests.mutation.mutant import Mutant
from tests.mutation.operators import at, constant, drop, value, without, written

BREAKAGES_OF_SKIPS = (
    Mutant("what was skipped is read again by the next owner", "skip-read", drop, first=110),
    Mutant("the cursor forgets what was skipped with the next commit", "skip-kept", value(constant(()))),
    Mutant("the cursor keeps a range that L has passed", "skip-kept", drop),
    Mutant("a claim forgets what was skipped", "epoch", value(written("${func}(${}, skipped=())"))),
    Mutant("a second skip forgets the first", "skip-range", value(without("keywords[0].value.elts[0]"))),
    Mutant(
        "a skip passes over the offset behind the range, too",
        "skip-range",
        value(at("keywords[0].value.elts[1].elts[1].right", constant(2))),
    ),
    Mutant("a skip leaves no outcome row", "skip-row", value(constant([]))),
    Mutant("the audit does not list which offsets were skipped", "skip-audit", drop),
    Mutant(
        "reading stands still before the holes, and not before the record that nobody knows",
        "read-holes",
        value(
            at(
                "args[2]",
                written("${body.value.value}[${body.value.slice} - 1][0] + 1 if ${body.value.slice} else 0"),
            )
        ),
    ),
)
