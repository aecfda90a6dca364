"""How long a transaction may take, phase by phase, and how soon a refused request is sent again."""

from delayline.clock import Clock
from kafkawire.client.transaction import State
from mq.kafka.librdkafka.producers import COMMIT_TIMEOUTS
from mq.kafka.settings import KafkaSettings

AGAIN_S, AGAIN_MAX_S = 0.005, 0.1
"""Before a request is sent again; it doubles. The markers of the transaction before take some milliseconds."""

MISSING_S = 2.0
"""How long a topic may be missing: a broker hears of a new one a moment later than its maker."""

_PHASES = {
    State.OPENING: "opening",
    State.ADDING: "writing",
    State.WRITING: "writing",
    State.JOINING: "offsets",
    State.OFFSETS: "offsets",
    State.ENDING: "end",
    State.IN_DOUBT: "end",
}
"""What time is given for, by the state that uses it up."""


class Patience:
    """Of one producer."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._phase = ""
        self._give_up_s = 0.0
        self._wait_s = AGAIN_S
        self._is_missing = False

    def begin(self) -> None:
        """The next phase gets its whole time, even if it is the one that the last transaction ended in."""
        self._phase = ""

    def enter(self, state: State, opening_s: float) -> None:
        """Each phase has its time, and begins to wait with short pauses. `opening_s` is given for an Open."""
        phase = _PHASES[state]
        if phase != self._phase:
            self._phase = phase
            self._give_up_s = self._clock.monotonic_s() + self._given_s(opening_s)
            self._wait_s, self._is_missing = AGAIN_S, False

    def _given_s(self, opening_s: float) -> float:
        match self._phase:
            case "opening":
                return opening_s
            case "writing":
                return self._settings.transaction_timeout_s
            case "offsets":
                return self._settings.offsets_timeout_s
        # Longer than the transaction: by then its coordinator has decided, so an answer is worth waiting for.
        return COMMIT_TIMEOUTS * self._settings.transaction_timeout_s

    def left_s(self) -> float:
        return self._give_up_s - self._clock.monotonic_s()

    def next_wait_s(self) -> float:
        wait_s = min(self._wait_s, self.left_s())
        self._wait_s = min(2 * self._wait_s, AGAIN_MAX_S)
        return wait_s

    @property
    def is_before_end(self) -> bool:
        """Whether nothing that is under way can commit the transaction."""
        return self._phase in ("writing", "offsets")

    def misses_topic(self) -> None:
        """Where records are written, a topic that stays unknown is not waited for as long as a broker would be."""
        if self._phase == "writing" and not self._is_missing:
            self._is_missing = True
            self._give_up_s = min(self._give_up_s, self._clock.monotonic_s() + MISSING_S)
