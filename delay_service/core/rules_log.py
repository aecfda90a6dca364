"""Which rules are in force from which offset of a shard on.

Rules records are rare, but a shard that is read again from its low offset must read every record under the rules
that were in force there. So the cursor carries those at its low offset, the index checkpoint those from there to
the checkpoint, and this list every change since.
"""

import msgspec

from delayline.errors import UnknownFormat
from delayline.schedule.rules import Rules


class RulesLog:
    """Changes in ascending order; the first one holds for everything below the second."""

    def __init__(self, first_offset: int, rules: Rules) -> None:
        self._changes: list[tuple[int, Rules]] = [(first_offset, rules)]
        self.announced = False  # the configured rules are written, or in the batch in flight, and not read back yet

    @property
    def latest(self) -> Rules:
        """In force for the next record to be read."""
        return self._changes[-1][1]

    def at(self, offset: int) -> Rules:
        """In force for the record at `offset`, which must not lie below the first offset known."""
        return next(rules for start, rules in reversed(self._changes) if start <= offset)

    def change(self, record_offset: int, rules: Rules) -> None:
        """A rules record was read: it is in force behind itself."""
        self._changes.append((record_offset + 1, rules))
        self.announced = False

    def announcement(self, configured: Rules) -> Rules | None:
        """The configured rules, if they are to be written to the log: they must be there before anything relies on
        them, because the next owner may be configured otherwise."""
        if self.announced or self.latest.same_as(configured):
            return None
        return configured.following(self.latest)

    def forget_below(self, offset: int) -> None:
        """Keep only what `at` needs for `offset` and above."""
        # rule rules-kept: records from L on would be read under later rules: early, or late.
        while len(self._changes) > 1 and self._changes[1][0] <= offset:
            del self._changes[0]

    def encode(self, until: int) -> bytes:
        """The changes that matter below `until`, for a checkpoint there."""
        # rule rules-until: rules that begin at the checkpoint would be missed: early, or late.
        return msgspec.json.encode([change for change in self._changes if change[0] <= until])

    @classmethod
    def decode(cls, data: bytes) -> "RulesLog":
        """Raises UnknownFormat."""
        try:
            changes = msgspec.json.decode(data, type=list[tuple[int, msgspec.Raw]])
            (start, first), *rest = changes
        except (msgspec.DecodeError, ValueError) as error:
            raise UnknownFormat(f"a checkpoint's rules cannot be read: {error}") from error
        log = cls(start, Rules.decode(bytes(first)))
        log._changes += [(offset, Rules.decode(bytes(rules))) for offset, rules in rest]
        return log
