"""How long a worker's shards stand still when it goes: from the signal to the next delivery that a reader has."""

from collections.abc import Callable

from tests.fault.kafka.clients import now_ms
from tests.fault.kafka.nemesis import FREEZES, STOPS, Nemesis
from tests.fault.kafka.processes import Worker
from tests.fault.kafka.reader import At
from tests.fault.kafka.scene import SESSION_S, Scene

AFTERWARDS_MS = 200
"""What the broker stamps so long after the signal was not sent by the one who got it."""


class Takeovers:
    """Measures one departure after the other; seconds by what it was."""

    def __init__(self, scene: Scene, nemesis: Nemesis) -> None:
        self._scene = scene
        self._nemesis = nemesis
        self.seconds: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": [], "SIGTERM": []}

    def kill(self) -> None:
        self.seconds["SIGKILL"].append(self._measure(self._nemesis.dispatch))
        self._nemesis.raise_all()
        self.settle()

    def freeze(self) -> None:
        """It wakes up when others have its shards, and joins again."""
        worker = self._owner()
        try:
            self.seconds["SIGSTOP"].append(self._measure(lambda _: worker.freeze(), worker))
        finally:
            worker.thaw()
        self._scene.tally[FREEZES] += 1
        self.settle()

    def stop(self) -> None:
        self.seconds["SIGTERM"].append(self._measure(self._nemesis.end))
        self._nemesis.raise_all()
        self._scene.tally[STOPS] += 1
        self.settle()

    def settle(self) -> None:
        """Wait until every worker that runs owns something, and every shard flows."""
        scene = self._scene
        scene.wait(lambda: scene.all_owned() and all(map(self._shards, scene.workers)), "everybody has a share")
        since_ms = now_ms()
        scene.wait(lambda: all(self._flows(shard, since_ms) for shard in scene.shards), "every shard flows")

    def _owner(self) -> Worker:
        return max(self._scene.workers, key=lambda worker: len(self._shards(worker)))

    def _shards(self, worker: Worker) -> list[At]:
        return self._scene.owners().get(worker.writer or "", [])

    def _measure(self, deed: Callable[[Worker], None], worker: Worker | None = None) -> float:
        """Seconds until the last of its shards has gone on."""
        worker = worker or self._owner()
        shards = self._shards(worker)
        at_ms = now_ms()
        deed(worker)
        self._scene.wait(
            lambda: all(self._flows(shard, at_ms + AFTERWARDS_MS) for shard in shards),
            f"others deliver for {worker.name}",
            10 * SESSION_S,
        )
        return max(self._received_ms(shard, at_ms + AFTERWARDS_MS) for shard in shards) / 1000 - at_ms / 1000

    def _flows(self, shard: At, since_ms: int) -> bool:
        seen = self._scene.reader.seen[shard]
        return bool(seen) and seen[-1].at_ms >= since_ms

    def _received_ms(self, shard: At, since_ms: int) -> int:
        """When the first record stamped since then was read."""
        first = 0
        for seen in reversed(self._scene.reader.seen[shard]):
            if seen.at_ms < since_ms:
                break
            first = seen.received_ms
        return first
