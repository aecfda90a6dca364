"""When a shard commits only to record how far it is: an interval after its last commit, and right after its
takeover."""

from delay_service.worker.owned import Owned


class Checkpoints:
    """Called from the worker's thread."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s

    def begin(self, owned: Owned) -> None:
        """The shard is taken over: its first checkpoint is due at once."""
        owned.commits.checked_s = 0.0

    def is_due(self, owned: Owned, now_s: float) -> bool:
        """Whether the next batch records how far the shard is, although it may contain nothing else."""
        return now_s - max(owned.commits.last_commit_s, owned.commits.checked_s) >= self._interval_s

    def asked(self, owned: Owned, now_s: float) -> None:
        """The shard was asked for a checkpoint at `now_s`."""
        owned.commits.checked_s = now_s

    def commits(self, owned: Owned, now_s: float) -> None:
        """The shard has part in a commit at `now_s`."""
        owned.commits.last_commit_s = now_s
