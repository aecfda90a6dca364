"""Up to where a shard's log has to be read before anything is delivered."""

_UNKNOWN = 1 << 63
"""Behind the end of every log."""


class ReadTo:
    """`end` is an offset. A lapse holds it (`delay_service.worker.lapses`), and a log that was read to its end is not
    any more. `recorded` is the end as the takeover has found it: behind that, all decisions are this owner's."""

    def __init__(self, end: int) -> None:
        self.recorded = self.end = self._before = end

    def hold(self) -> None:
        """More may have been stored: nothing is delivered before `until`."""
        if self.end != _UNKNOWN:
            self._before, self.end = self.end, _UNKNOWN

    def until(self, end: int = 0) -> None:
        """The log was so long after `hold`; or it cannot be read, and what has been read counts, as before."""
        self.end = max(end, self._before)
