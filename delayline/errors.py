"""Errors of the vocabulary.

    Bug                       ours: an invariant of this program is broken; never caught, the process ends
    DelaylineError            theirs: bad input, bad settings, a peer's answer
    ├── ConfigError           a setting that cannot be; its text is one sentence for the operator
    ├── MalformedRecord       bytes that are not a record body
    ├── MalformedMessageId    text that is not a message id
    ├── Altered               an encrypted value that is not the one that was written there
    ├── MalformedDirective    a duration, moment or level that does not parse
    └── UnknownFormat         bytes of ours with a version this program does not know
        └── Foreign           bytes that look like ours, and that no version writes

Rooms that talk to the outside add their own trees: `mq.errors`, `store.errors`, `api.http.problems`.
"""


class Bug(Exception):
    """An invariant of ours is broken."""


class DelaylineError(Exception):
    """Base of everything that is not our own fault."""


class ConfigError(DelaylineError):
    """An invalid setting; the text names it, in one sentence."""


class MalformedRecord(DelaylineError):
    """Bytes that are not a record body."""


class MalformedMessageId(DelaylineError):
    """Text that is not a message id."""


class Altered(DelaylineError):
    """An encrypted value is not the one that was written at this place with this data key."""


class MalformedDirective(DelaylineError):
    """A duration, moment or level that does not parse."""


class UnknownFormat(DelaylineError):
    """Bytes of ours with a format version this program does not know."""


class Foreign(UnknownFormat):
    """Bytes that look like ours and that no version of this program has written, or ever will: nothing depends on
    their content."""
