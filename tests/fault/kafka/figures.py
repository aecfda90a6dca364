"""What a run came to, in numbers: how much could have gone wrong, and how long anybody waited."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from tests.fault.kafka.clients import Fate
from tests.fault.kafka.evidence import Evidence
from tests.fault.kafka.reader import Seen
from tests.simulation import facts
from tests.simulation.history import Committed, Fact, Moved


@dataclass(frozen=True)
class Chances:
    """How often each of the zeros could have been something else."""

    acknowledged: int = 0  # to be lost
    unknown: int = 0  # to be delivered twice, or without having been stored
    aborted: int = 0  # to be delivered all the same
    delivered: int = 0  # to be early, twice, out of order, altered
    dead: int = 0
    rows: int = 0  # to be missing or double
    cursors: int = 0  # to go back
    claims: int = 0  # to carry more than a new owner

    def __add__(self, other: "Chances") -> "Chances":
        ours, theirs = asdict(self), asdict(other)
        return Chances(**{name: ours[name] + theirs[name] for name in ours})


def chances(evidence: Evidence, history: Sequence[Fact]) -> Chances:
    count = evidence.ledger.count
    commits = [fact for fact in history if isinstance(fact, Committed)]
    moves = [fact for fact in history if isinstance(fact, Moved)]
    return Chances(
        count(Fate.ACKNOWLEDGED),
        count(Fate.UNKNOWN),
        count(Fate.ABORTED),
        sum(len(commit.deliveries) for commit in commits),
        sum(len(commit.dead) for commit in commits),
        sum(len(commit.rows or ()) for commit in commits),
        len(moves),
        sum(move.before is None or move.before.epoch != move.after.epoch for move in moves),
    )


@dataclass(frozen=True)
class Waits:
    """Milliseconds: the least time from due to the broker's stamp, and the longest from when a message could have
    been delivered (due and accepted) to a reader of the target topic having it. Below zero is early. And the longest
    that the reader of a partition got nothing, between two of its records."""

    closest_ms: int
    longest_ms: int
    stalled_ms: int


def waits(evidence: Evidence) -> Waits:
    targets = [seen for shard in evidence.shards for seen in evidence.seen[shard]]
    both = [_waited(seen) for seen in targets] or [(0, 0)]
    stalled_ms = max(map(_stalled_ms, (evidence.seen[shard] for shard in evidence.shards)), default=0)
    return Waits(min(least for least, _ in both), max(most for _, most in both), stalled_ms)


def _stalled_ms(records: Sequence[Seen]) -> int:
    received = [seen.received_ms for seen in records]
    return max((later - earlier for earlier, later in pairwise(received)), default=0)


def _waited(seen: Seen) -> tuple[int, int]:
    delivered = facts.delivered(seen.body)
    possible_ms = max(delivered.due_ms, delivered.accepted_at_ms or 0)
    return seen.at_ms - delivered.due_ms, seen.received_ms - possible_ms
