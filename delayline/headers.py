"""Header names of ours. Names of directives stand with their parser in `delayline.schedule`."""

ACCEPTED = b"delayline-accepted"
DUE = b"delayline-due"
ID = b"delayline-id"

ECHOED = frozenset({ID, DUE, ACCEPTED})
"""On every delivered record; dropped silently when a consumer forwards them with a new delay."""

ORIGIN = b"delayline-origin"
REPLACES = b"delayline-replaces"
VERSION = b"delayline-version"
OCCURRENCE = b"delayline-occurrence"
DECISION = b"delayline-decision"
RULES = b"delayline-rules"

TERMS = b"delayline-terms"
CONTROL = b"delayline-control"
IDEMPOTENCY = b"delayline-idempotency"
IF_MATCH = b"delayline-if-match"
FORWARDED = b"delayline-forwarded"

RESERVED = frozenset(
    {ORIGIN, REPLACES, VERSION, OCCURRENCE, DECISION, RULES, TERMS, CONTROL, IDEMPOTENCY, IF_MATCH, FORWARDED}
)
"""Inside buffer topics only; a client that sends one is refused."""

REDRIVEN = b"delayline-redriven"
"""On a record that was sent again from the dead letters: the id that its message had."""

DEAD_ID = b"delayline-id"
DEAD_TOPIC = b"delayline-topic"
DEAD_PARTITION = b"delayline-partition"
DEAD_OFFSET = b"delayline-offset"
DEAD_DUE = b"delayline-due"
DEAD_REASON = b"delayline-reason"
DEAD_ERROR_CODE = b"delayline-error-code"
