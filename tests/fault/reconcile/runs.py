"""Runs of the job, one after the other, beside traffic; some are killed."""

import time
from collections import Counter
from random import Random
from threading import Thread

from reconcile.report.summary import Summary
from tests.fault.kafka.clients import now_ms
from tests.fault.kafka.evidence import Outage
from tests.fault.reconcile.jobs import Job

ALLOWED = frozenset({"unsettled"})
"""What a run beside traffic may be unable to judge: half of a pair may stand where nothing has been read yet."""

RUNS = "runs beside traffic that ended"
KILLS = "runs beside traffic that were killed"
REPEATED = "killed runs that the next one repeated from their plan"
UNSETTLED = "   of them with exit code 3, unsettled alone"
FAILED = "runs that failed beside a killed broker (exit code 1)"
JUDGED = "windows that runs beside traffic have judged"
OUTAGE_MS = 40_000
"""A broker that has come back is not at once what its clients find."""


class Runs(Thread):
    """`count` runs that end by themselves, and half as many that are killed. `failures`: what must
    not have been."""

    def __init__(self, job: Job, count: int, rnd: Random) -> None:
        super().__init__(name="runs", daemon=True)
        self._job, self._count, self._rnd = job, count, rnd
        self.tally: Counter[str] = Counter()
        self.failures: list[str] = []
        self._failed: list[tuple[int, int]] = []
        self._begun: tuple[int, bytes] | None = None
        self._stopping = False

    def run(self) -> None:
        try:
            order = [self._killed] * (self._count // 2) + [self._whole] * self._count
            self._rnd.shuffle(order)
            while self.tally[RUNS] < self._count and not self._stopping and not self.failures:
                (order.pop() if order else self._whole)()
        except Exception as error:
            self.failures.append(f"the runs ended: {error!r}")
            raise

    def stop(self) -> None:
        self._stopping = True
        self._job.kill()

    def _killed(self) -> None:
        before = self._job.runs
        until_s = time.monotonic() + self._rnd.uniform(0.2, 1.0) * max(self._job.seconds, 4.0)
        self._job.begin()
        if self._job.kill_when(lambda: time.monotonic() > until_s, with_children=self._rnd.random() < 0.5):
            self.tally[KILLS] += 1
            self._check_plan()
            plan = self._job.plan(before + 1)
            self._begun = (before + 1, plan) if plan is not None and self._job.runs == before else None
        print(f"{time.strftime('%H:%M:%S')}  run killed; manifests: {before} -> {self._job.runs}", flush=True)

    def _check_plan(self) -> None:
        if self._begun is not None and self._job.plan(self._begun[0]) != self._begun[1]:
            self.failures.append(f"run {self._begun[0]} was not repeated as it was planned")

    def _whole(self) -> None:
        started_ms, before = now_ms(), self._job.runs
        code = self._job.run()
        print(f"{time.strftime('%H:%M:%S')}  run ended with {code}, {self._job.seconds:.0f} s", flush=True)
        if self._stopping:
            return
        if code == 1:
            self._failed.append((started_ms, now_ms()))
            self.tally[FAILED] += 1
            return
        self.tally[RUNS] += 1
        if self._job.runs != before + 1:
            self.failures.append(f"run {before + 1} left {self._job.runs} manifests")
        if self._begun is not None:
            self._check_plan()
            self._begun = None
            self.tally[REPEATED] += 1
        summary = self._job.summary()
        self.failures += complaints(summary, code)
        self.tally[UNSETTLED] += code == 3
        self.tally[JUDGED] += summary.windows_judged

    def unexplained(self, outages: list[Outage]) -> list[str]:
        """Runs that failed although no broker was away."""
        alone = [
            (first, last)
            for first, last in self._failed
            if not any(one.killed_ms <= last and first <= one.back_ms + OUTAGE_MS for one in outages)
        ]
        return [
            f"a run failed, and no broker was killed: {first} to {last}, see {self._job.log}" for first, last in alone
        ]


def complaints(summary: Summary, code: int, fresh: dict[str, int] | None = None) -> list[str]:
    """What is wrong with a run that was to find this, and nothing else."""
    found: Counter[str] = Counter()
    for topic in summary.topics:
        found.update(topic.fresh)
    what = {one.what for one in summary.not_judged}
    wanted = 2 if fresh else 3 if what else 0
    wrong = [] if code == wanted else [f"run {summary.run}: exit code {code}, not {wanted}"]
    if dict(found) != (fresh or {}):
        named = [(one.category, one.id, one.detail) for one in summary.findings[:5]]
        wrong.append(f"run {summary.run}: found {dict(found)}, not {fresh or {}}: {named}")
    wrong += [
        f"run {summary.run} could not judge: {one.what}, {one.why}"
        for one in summary.not_judged
        if one.what not in ALLOWED
    ]
    wrong += [
        f"run {summary.run}: {topic.topic} has a difference of {topic.ledger.difference}"
        for topic in summary.topics
        if topic.ledger.difference
    ]
    return wrong
