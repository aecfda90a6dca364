"""Mutants of names, repeats, deadlines, pause and purge. See `mutants`."""

from tests.mutation.mutant import Mutant
from tests.mutation.operators import (
    after,
    always,
    at,
    at_least,
    condition,
    constant,
    drop,
    never,
    part,
    plus,
    value,
    without,
    written,
)

BREAKAGES_OF_WISHES = (
    Mutant("names that two records had one after the other stay contested", "name-resolved", drop, first=1550),
    Mutant(
        "a decided conditional message that is read again takes its name from whoever has it", "name-held", always
    ),
    Mutant("an owed name is not known", "name-owed", without("value.args[0].elts[0]")),
    Mutant(
        "a series that goes on is not found by an occurrence",
        "series-id",
        value(at("args[0].func.value.args[0]", part("func.value"))),
    ),
    Mutant("keys of what has ended are forgotten at once", "key-kept", drop),
    Mutant(
        "a name is free while its message is on the move",
        "moving-name",
        without("value.values[1].values[0]"),
        first=220,
    ),
    Mutant(
        "a conditional message below O is decided again after a takeover",
        "conditional-below-O",
        without("test.values[1]"),
        first=1455,
    ),
    Mutant("a decided conditional message that is read again has no names", "conditional-names", value(constant([]))),
    Mutant("a conditional message is never decided", "conditional-asked", drop),
    Mutant("a conditional message that is passed over is not late", "conditional-late", drop),
    Mutant("a conditional message is delivered before its turn", "conditional-turn", value(constant([]))),
    Mutant("names are not bound when their claim is committed", "bind", drop),
    Mutant(
        "a commit binds a name to the record that it ends, after the re-append has been read",
        "bind",
        value(at("args[1]", constant(()))),
    ),
    Mutant("a message on its way to another record is not found by its names", "find-moving", value(constant(None))),
    Mutant(
        "a name that two records have one after the other is unknown until it is resolved",
        "name-contested",
        without("value.values[1]"),
        first=910,
    ),
    Mutant(
        "a name is bound although its batch may be aborted",
        "abort-safe",
        after("self.messages.bind(${targets[0]}.named, ())"),
    ),
    Mutant(
        "the checkpoint passes a name that is owed",
        "checkpoint",
        value(written("(${elts[0]}, ${elts[2]})")),
        first=5620,
    ),
    Mutant("a re-append that is read has no names", "reappend-names", drop),
    Mutant("a pause is not in the cursor", "pause-cursor", drop),
    Mutant("a pause is forgotten by the next commit", "pause-kept", value(written("bool(${orelse})"))),
    Mutant("a paused shard delivers", "held", without("value.values[0]")),
    Mutant("a shard delivers while it is purged", "held", without("value.values[1]")),
    Mutant("late records of a paused shard stand in the way", "pause-late", value(part("orelse"))),
    Mutant(
        "a late record of a paused shard that is carried on still holds O back",
        "late-gone",
        without("iter.elts[2]"),
        first=6440,
    ),
    Mutant("an unreadable late record of a paused shard stands in the way", "pause-dead", drop, first=4240),
    Mutant("what an aborted batch would have made late is late", "abort-late", drop),
    Mutant("whoever is replaced is not named", "decision-replaced", value(at("func", written("${value}.end")))),
    Mutant("an own id is kept although it is to be replaced", "replace", always),
    Mutant("an own id is replaced although it is to be kept", "replace", never),
    Mutant(
        "a conditional message is decided although the holder of its name is on the move", "conditional-moving", never
    ),
    Mutant("own ids are not compared", "conditional-free", without("test.values[1]")),
    Mutant("idempotency keys are not compared", "conditional-free", without("test.values[0]")),
    Mutant(
        "a conditional message does not know who has got its name in the same batch",
        "conditional-batch",
        value(constant(None)),
    ),
    Mutant("a conditional message does not get its names", "conditional-gets", drop),
    Mutant("whoever has ended in the same batch still has its name", "name-ended", value(part("orelse"))),
    Mutant(
        "a key that is cancelled in the same batch is taken for a new one",
        "key-batch",
        without("value.values[0]"),
        first=190,
    ),
    Mutant("keys of what is cancelled are not remembered", "key-cancel", drop),
    Mutant("a repetition is remembered instead of the first request", "key-first", always),
    Mutant("another request with the same key counts as a repetition", "key-reused", value(part("body"))),
    Mutant("a calendar is not fixed", "calendar", drop),
    Mutant("a purge that may be undone keeps nothing", "purge-copy", drop),
    Mutant("a cancel that may be undone keeps nothing", "cancel-copy", drop),
    Mutant(
        "an occurrence that may come back is kept as its series",
        "cancel-copy-one",
        value(at("args[2]", part("args[0]"))),
        first=1500,
    ),
    Mutant("a copy has another time", "copy-due", at("elts[1].right", plus(1))),
    Mutant("a copy asks for nothing but a time", "copy-terms", drop),
    Mutant("a copy has the idempotency key", "copy-key", value(written("${test.left} or ${body}"))),
    Mutant("what comes back behind its time is due then", "restored-due", drop),
    Mutant("what comes back behind its time lives anew", "restored-ttl", drop, first=600),
    Mutant("a purge ends what came after it", "purge-before", without("value.values[1]")),
    Mutant("a purge ends what only goes to the dead letters", "purge-before", without("value.values[0]")),
    Mutant(
        "a purge leaves what was carried on behind it",
        "purge-before",
        value(at("values[1].left", written("pending.key.offset"))),
    ),
    Mutant("a purge does not wait for what is on the move", "purge-moving", without("test.values[1]"), first=290),
    Mutant("a purge does not wait for what this batch moves", "purge-moving", without("test.values[0]"), first=340),
    Mutant("the second purge of a batch begins where the first one has ended", "purge-anew", without("targets[0]")),
    Mutant(
        "a purge takes a stretch that is cut short for the last one",
        "purge-last",
        condition(written("len(${operand}) < DECIDED_MAX")),
    ),
    Mutant(
        "a purge takes what is left of an aborted batch for done",
        "purge-abort",
        without("test.values[0]"),
        first=5410,
    ),
    Mutant("a pause is taken for a resume", "pause", value(constant(False))),
    Mutant("the version is not looked at", "version", never),
    Mutant("an operation on an occurrence means any", "occurrence", value(part("body"))),
    Mutant(
        "who cancels an occurrence ends the series", "cancel-one", value(at("keywords[0].value", constant(False)))
    ),
    Mutant("an occurrence that is cancelled does not name what goes on", "row-successor", without("value.args[3]")),
    Mutant(
        "who cancels a series leaves out one occurrence", "cancel-one", value(at("keywords[0].value", constant(True)))
    ),
    Mutant(
        "an occurrence that is left out keeps its number", "number-skipped", value(at("args[2]", part("args[0]")))
    ),
    Mutant("times are not counted", "times", value(part("orelse.left"))),
    Mutant("the next occurrence keeps its number", "number", value(part("args[0]"))),
    Mutant("a series goes on behind its deadline", "series-end", without("test.values[1]")),
    Mutant("all missed times are made up for by one", "missed", without("test.values[1]")),
    Mutant("every missed time is made up for", "missed", never),
    Mutant("a missed time is made up for although none is to be", "missed-none", never),
    Mutant(
        "the first missed time is made up for instead of the last",
        "missed-last",
        at("targets[0].elts[0]", written("_")),
    ),
    Mutant("gaps do not grow", "gap", value(part("body"))),
    Mutant("deadlines are not looked at", "deadline", never),
    Mutant(
        "a message expires at its deadline instead of behind it", "deadline", condition(at("values[1]", at_least))
    ),
    Mutant(
        "a time to live does not follow a reschedule",
        "ttl",
        value(at("body.args[0]", written("int(pending.message_id.rsplit('.', 1)[1])"))),
    ),
    Mutant(
        "a time to live counts from the first of the missed times",
        "ttl",
        value(at("body.args[0]", written("pending.key.due_ms"))),
    ),
    Mutant(
        "a series is too late by its first missed time",
        "expired-tick",
        condition(at("left", written("pending.key.due_ms"))),
        first=300,
    ),
    Mutant(
        "a series that goes on is not on the move", "series-moves", at("targets[0].elts[0]", written("_")), first=290
    ),
    Mutant("a series that goes on keeps its names no longer", "moved-names", value(part("orelse")), first=840),
    Mutant("keys of what was delivered are not remembered", "key-ended", drop),
    Mutant(
        "an occurrence is delivered for the first missed time",
        "tick",
        value(at("args[2]", written("pending.key.due_ms"))),
    ),
    Mutant(
        "an occurrence is delivered under the id of its series",
        "occurrence-id",
        value(at("args[0].elts[0].args[1].func.value", written("${value}.message_id"))),
    ),
    Mutant("a re-append forgets what the message asks for", "reappend-terms", drop),
    Mutant("a re-append keeps its version", "reappend-version", at("elts[1].right", written("${left} or ${right}"))),
)
