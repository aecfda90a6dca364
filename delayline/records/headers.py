"""Header names of ours. Names of directives stand with their parser in `delayline.schedule.verdict`."""

ACCEPTED = b"delayline-accepted"
DUE = b"delayline-due"
ID = b"delayline-id"

TOPIC = b"delayline-topic"
ATTEMPT = b"delayline-attempt"
REASON = b"delayline-reason"

STEP = b"delayline-step"
EXACT = b"delayline-record"
"""Properties of messages on RocketMQ, no headers of records (`mq.rocketmq.body`)."""

SENT = b"delayline-sent"
"""How a producer of RocketMQ has sent a message, where that is not the usual way: `<flag> <sysFlag>`. It stays with
the message up to its delivery, which is made in the same way; clients cannot send it."""

ECHOED = frozenset({ID, DUE, ACCEPTED, TOPIC, ATTEMPT, REASON, STEP, EXACT})
"""The first three are on every delivered record, the next on those in a consumer group's topics, and the last on
messages of RocketMQ. Dropped silently when a consumer forwards them with a new delay; only a retry reads the
attempt."""

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
SET_ASIDE = b"delayline-set-aside"
UNDO = b"delayline-undo"
RESTORES = b"delayline-restores"
RESTORED = b"delayline-restored"

RESERVED = frozenset(
    {ORIGIN, REPLACES, VERSION, OCCURRENCE, DECISION, RULES, TERMS, CONTROL, IDEMPOTENCY, IF_MATCH, FORWARDED}
    | {SET_ASIDE, UNDO, RESTORES, RESTORED}
)
"""Inside buffer topics only; a client that sends one is refused."""

REDRIVEN = b"delayline-redriven"
"""On a record that was sent again from the dead letters: the id that its message had."""

LEFT_OUT = b"delayline-left-out"
"""On a dead letter that has neither key, value nor headers of the record: its size and digest."""

DEAD_ID = b"delayline-id"
DEAD_PARTITION = b"delayline-partition"
DEAD_OFFSET = b"delayline-offset"
DEAD_DUE = b"delayline-due"
DEAD_ERROR_CODE = b"delayline-error-code"
