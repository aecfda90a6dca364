"""How two clocks differ."""

from typing import NamedTuple


class ClockOffset(NamedTuple):
    """By how much our clock is ahead of a broker's, at least and at most; negative where it is behind."""

    broker: str
    least_ms: int
    most_ms: int

    @property
    def middle_ms(self) -> float:
        return (self.least_ms + self.most_ms) / 2

    def beyond(self, skew_max_ms: int) -> bool:
        """Whether the clocks differ by more than `skew_max_ms` beyond doubt."""
        return self.least_ms > skew_max_ms or self.most_ms < -skew_max_ms
