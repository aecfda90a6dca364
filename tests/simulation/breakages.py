"""Mutants of delivery, takeover, rules and operations. See `mutants`."""

from tests.mutation.mutant import Mutant
from tests.mutation.operators import (
    after,
    at,
    before,
    both,
    condition,
    constant,
    drop,
    less,
    never,
    part,
    plus,
    value,
    without,
    written,
)

BREAKAGES = (
    Mutant("the low water mark passes what is pending", "low-due", value(written("${body} + 1"))),
    Mutant("the low water mark counts what its own commit ends", "low-pending", value(part("left"))),
    Mutant(
        "what the low water mark leaves out as ended is counted twice where it is delivered and goes on",
        "low-pending",
        value(at("right.args[0]", part("args[0]"))),
    ),
    Mutant(
        "the low water mark stands at the read position, above what is undecided",
        "low-offset",
        value(at("args[3]", plus(1))),
    ),
    Mutant(
        "what has changed since the last low water mark is not reported once nothing is pending",
        "low-news",
        value(at("values[1]", written("${comparators[0]} is None"))),
    ),
    Mutant("dispatches before it has read to the recorded log end", "read-to", value(constant(True))),
    Mutant(
        "D is one millisecond further than the last delivered key",
        "D-key",
        value(at("body.args[1]", written("${func}(${args[0].value}[0] + 1, ${args[0].value}[1])"))),
    ),
    Mutant("O passes a late record that is still pending", "O-late", value(part("orelse"))),
    Mutant(
        "what was read while a commit was in flight is not compared with that commit's D",
        "D-flight",
        value(at("value", part("orelse"))),
        first=690,
    ),
    Mutant("deliveries above O are not named", "decision-above-O", never),
    Mutant("decision records are ignored on replay", "decision-ended", drop),
    Mutant(
        "replay takes everything below D for delivered, whatever its offset",
        "D-late",
        value(written("[entry for entry in ${args[0]} if entry[:2] > ${func.value}.delivered_key]")),
    ),
    Mutant(
        "a takeover reads on at O instead of at the index's checkpoint",
        "reuse-from",
        value(at("args[2]", written("cursor.next_offset"))),
    ),
    Mutant(
        "an index from before the low offset is reused",
        "reuse-low",
        written("${comparators[0]} <= ${comparators[1]}"),
        first=345,
    ),
    Mutant("the index of another topic of the same name is reused", "reuse-topic", constant(True), first=60),
    Mutant(
        "a reused index keeps what the cursor has ended meanwhile",
        "reuse-covered",
        value(at("args[0]", constant(0))),
        first=810,
    ),
    Mutant("a claim does not raise the epoch", "epoch", value(at("keywords[0].value", written("max(${left}, 1)")))),
    Mutant("a claim does not name the owner", "epoch", without("value.keywords[1]")),
    Mutant(
        "the index loses records before the commit that ends them",
        "index-after",
        after("self._index.remove(${value.args[1]}, self._checkpoint()); ${value.args[1]}.clear()"),
    ),
    Mutant(
        "the checkpoint passes records that are only in memory",
        "checkpoint",
        value(written("(${elts[0]}, ${elts[3]})")),
    ),
    Mutant("L passes pending records", "L-pending", value(part("body"))),
    Mutant(
        "the cursor's rules are the latest ones, not those at L", "L-rules", value(written("${func.value}.latest"))
    ),
    Mutant(
        "the checkpoint forgets which rules were in force",
        "reuse-from",
        value(at("args[4]", written("${func.value}(cursor.low_offset, cursor.rules)"))),
    ),
    Mutant(
        "the checkpoint misses rules that begin exactly there",
        "rules-until",
        value(
            at(
                "args[0]",
                both(at("generators[0].ifs[0]", less), written("${} or ${generators[0].iter}[:1]")),
            )
        ),
    ),
    Mutant("rules that are still in force at L are forgotten", "rules-kept", without("test.values[1]")),
    Mutant("the due time depends on who reads", "rules-read", value(at("args[2]", written("self._settings.rules")))),
    Mutant("a re-append gets an id of its own", "origin", value(part("orelse"))),
    Mutant(
        "a re-append does not name the record that it replaces",
        "reappend-replaces",
        at("elts[1].right", written("(${}[0], ${}[1] + 1)")),
    ),
    Mutant("a rolled record stays in the index beside its successor", "index-gone", value(part("func.value"))),
    Mutant("replay does not end what a re-append replaces", "reappend-ends", drop),
    Mutant("a re-append moves the due time", "reappend-due", at("elts[1].right", plus(1))),
    Mutant("a late record that a name has ended still holds O back", "late-decided", drop),
    Mutant("a late record that was delivered still holds O back", "late-gone", without("iter.elts[0]")),
    Mutant("a hole at the log's end is never read past", "read-end", drop),
    Mutant("a record at or above O is rolled", "roll-below", value(part("body"))),
    Mutant("delivers one millisecond early", "due", value(at("args[1]", plus(1)))),
    Mutant("delivers what is too late", "lateness-max", value(constant(-1))),
    Mutant("takes for too late what will be so in a millisecond", "lateness-max", value(plus(1)), first=790),
    Mutant(
        "control records get their outcome row before O passes them, and again after it",
        "row-O",
        value(part("generators[0].iter")),
    ),
    Mutant("control records get another outcome row after a takeover", "row-once", without("test.values[0]")),
    Mutant("outcome rows of control records are forgotten while O is held back", "row-kept", value(constant([]))),
    Mutant("a record that the target refused is thrown away without a letter", "dead-letter", drop),
    Mutant("what asks for more than a time is taken for a plain message", "plain-all", without("test.values[2]")),
    Mutant("a batch of plain messages delivers what is too late", "plain-all", without("test.values[0]")),
    Mutant("a batch of plain messages delivers what the target refused", "plain-all", without("test.values[1]")),
    Mutant("a plain message beside others is delivered although it is too late", "plain-one", without("values[1]")),
    Mutant(
        "a plain message beside others is delivered although the target refused it", "plain-one", without("values[2]")
    ),
    Mutant(
        "plain messages overtake others of their batch",
        "order",
        at("iter", written("sorted(zip(${args[0]}, ${args[1]}), key=lambda each: not each[1])")),
    ),
    Mutant("plain messages have no outcome rows", "row-plain", drop),
    Mutant("an operation is decided although its message is on the move", "op-moving", without("value.values[1]")),
    Mutant(
        "a message is no longer on the move although there was no room to index it",
        "moving-room",
        before("self.messages.moving.pop(origin or '')"),
        first=130,
    ),
    Mutant("an operation is decided although this batch moves its message", "op-moving", without("value.values[0]")),
    Mutant("an operation is decided in a commit that does not pass it", "op-O", condition(part("values[2]"))),
    Mutant("O passes an operation that waits", "op-waits", drop),
    Mutant("two operations in one batch end the same record", "op-once", without("test.values[1]")),
    Mutant(
        "operations above O are not decided after a takeover",
        "op-above-O",
        value(written("${} if self.caught_up else None")),
    ),
    Mutant("what is cancelled is not named", "decision-cancel", without("value.elts[1]")),
    Mutant("what an operation ends is delivered in the same commit", "op-ends", value(written("set(${args[0]})"))),
    Mutant("what was cancelled stays in the index", "index-gone", value(written("set(${args[0]})"))),
    Mutant("what an operation ends is rolled as well", "roll-ended", without("test.values[1]")),
    Mutant("a late record that an operation has ended still holds O back", "late-gone", without("iter.elts[1]")),
    Mutant(
        "operations of an aborted batch are forgotten",
        "abort-safe",
        after("self._operations.forget(${targets[0]}); ${targets[0]}.count = 0"),
    ),
    Mutant(
        "a rescheduled message keeps its due time", "reschedule", value(at("args[1]", written("target.key.due_ms")))
    ),
    Mutant("an operation carries on what only goes to the dead letters", "op-dead", without("test.values[1]")),
    Mutant("operations below O are decided again after a takeover", "op-below-O", without("guard")),
)
