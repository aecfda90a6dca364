"""When a shard is asked how far it is: so long after its last commit, and right after its takeover."""

from delay_service.worker.owned import Owned


class Checkpoints:
    """Called from the worker's thread."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s

    def begin(self, owned: Owned) -> None:
        """It is taken over, and has not been asked."""
        owned.commits.checked_s = 0.0

    def is_due(self, owned: Owned, now_s: float) -> bool:
        """Whether the next batch says how far the shard is, although it may say nothing else."""
        return now_s - max(owned.commits.last_commit_s, owned.commits.checked_s) >= self._interval_s

    def asked(self, owned: Owned, now_s: float) -> None:
        """It was, and could answer."""
        owned.commits.checked_s = now_s

    def commits(self, owned: Owned, now_s: float) -> None:
        """It has part in a commit."""
        owned.commits.last_commit_s = now_s
