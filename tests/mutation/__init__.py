"""Mutants: one rule of the source broken at a time, to show that a test notices.

    rules.py      finds the rule that a comment in the source tags, and the statement below the comment
    operators.py  how a tagged statement is broken, without the names in it
    mutant.py     a mutant, and the modules compiled with it; nothing on disk changes
    test_*.py     the tags and the mutants agree; the operators do what they promise

A rule is tagged above the line that keeps it:

    # rule O-late: a takeover would begin behind a late record that is still pending: lost.
    return lowest if lowest is not None else self.position

The tag is unique in the tree. What follows is what breaks without the line. The tag stands for the statement that
begins below the comment, or for the expression, keyword or `case` that does. A mutant names the tag and an operator:

    Mutant("O passes a late record that is still pending", "O-late", value(part("orelse")))

Renames leave it alone, unless the operator has to name something that the statement does not (`Operator.names`).
The mutants themselves stand beside what hunts them: tests/simulation, tests/wire_model, tests/proxy_model,
tests/unit/delay_service, tests/unit/mq/rocketmq.
"""
