"""How long questions wait for an owner, wherever that is: what the HTTP API waits is set in `api.services`."""

FIND_S = 4.5
"""Less than the API waits, so that it hears why there is no answer."""

HELD_S = 2.0
"""A message that is refused otherwise waits for it: a moment, and not through a takeover."""

LIST_S = 3.0
"""The answers of most owners by then are a list, which the API has to get in time: much less than it waits."""

AGAIN_S = 2.0
"""A list that lacks a shard is better than one that comes late."""

DECIDE_S = 11.0
"""More than the API waits: it knows better what to answer about an operation that is not decided yet."""

PAUSE_S = 0.2
"""Between two tries."""

STOP_WITHIN_S = 2.0
