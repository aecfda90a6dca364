"""A run that is killed at a moment of its protocol, and the next one: together they leave what an undisturbed run
leaves."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.dataset as ds

from reconcile.logic.manifest import Manifest, decode
from tests.fault.reconcile.jobs import Job
from tests.reconcile.archive import World

MINUTE_MS = 60_000
RUN = 3
"""The one that is killed: there are runs to go on from, and windows to judge again."""

MESSAGES = 400
MOMENTS = (
    "lock",
    f"plan-{RUN}.json",
    f"stage/run={RUN}",
    f"reads-{RUN}.json",
    f"cells/run={RUN}",
    f"findings/run={RUN}",
    f"windows/run={RUN}",
    f"runs/{RUN}",
    f"runs/{RUN}/summary.json",
    f"manifest-{RUN}.json",
)
"""What has just appeared in the directory when the run is killed."""

KILLS = "runs killed"
REPEATED = "killed runs that the next one repeated from their plan"
BEHIND = "killed behind their manifest"
BEFORE = "killed before their plan"
ROWS = "rows of the ledger that were compared"


def world(folder: Path, out: Path, rnd: Random) -> Job:
    """An archive, of which two runs have read the beginning; the third has something of everything to do."""
    made = World(folder, "orders", "mails")
    job = Job(out, {}, ["--reader", "parquet", "--input", str(folder)])
    late = []
    for turn in range(RUN):
        for number in range(MESSAGES):
            topic, shard = rnd.choice(("orders", "mails")), rnd.randrange(2)
            sent = made.send(topic, shard, rnd.randrange(1, 12 * MINUTE_MS))
            if number % 40 == 1:
                made.forget(sent)
            elif number % 40 == 2:
                made.reschedule(sent, 5 * MINUTE_MS)
            elif number % 40 == 3:
                made.end(sent, "cancelled", reason="cancelled")
            elif number % 40 == 4:
                late.append(sent)
                made.forget(sent)
        made.pass_on(15 * MINUTE_MS)
        made.pass_on(5 * MINUTE_MS)
        made.write()
        if turn < RUN - 1:
            code = job.run()
            assert code in (0, 2), f"run {turn + 1} ended with {code}, see {job.log}"
            for sent in late:  # its window is judged again
                made.end(sent, done_ms=sent["due_ms"] + 5)
            late.clear()
    return job


def left(out: Path) -> dict[str, Any]:
    """What the run has left: its manifest, its report but for how long it took, and its rows, sorted."""
    manifest = (out / f"manifest-{RUN}.json").read_bytes()
    found: dict[str, Any] = {"manifest": manifest}
    for folder, count in decode(manifest, Manifest, "manifest").written.items():
        rows = ds.dataset(out / folder, format="parquet", partitioning="hive").to_table().to_pylist()
        assert len(rows) == count, f"{folder}: {len(rows)} rows of {count}"
        found[folder] = sorted(map(repr, rows))
    for name in ("summary.json", "repair-plan.json"):
        document = msgspec.json.decode((out / "runs" / str(RUN) / name).read_bytes())
        document.pop("seconds", None)
        found[name] = document
    return found


def killed_everywhere(seed: int, folder: Path, random_kills: int = 4) -> tuple[Counter[str], list[str]]:
    """Each kill by itself; what was done, and what was not as it must be."""
    tally: Counter[str] = Counter()
    before = world(folder / "archive", folder / "before", Random(f"{seed} world"))
    undisturbed = _copy(before, folder / "undisturbed")
    code = undisturbed.run()
    assert code == 2, f"there is something to be found, and the undisturbed run ended with {code}"
    expected, failures = left(undisturbed.output), []
    for job, happens, with_java in _plays(Random(f"{seed} kills"), before, folder, random_kills, undisturbed.seconds):
        try:
            _kill_and_repeat(job, happens, with_java, expected, tally)
        except (AssertionError, OSError) as error:
            failures.append(f"{job.output.name}: {error}")
    return tally, failures


Play = tuple[Job, Callable[[], bool], bool]
"""A job, when it is killed, and whether its Java is as well."""


def _plays(rnd: Random, before: Job, folder: Path, random_kills: int, seconds: float) -> Iterator[Play]:
    for moment in MOMENTS:
        for with_java in (True, False):
            job = _copy(before, folder / f"{moment.replace('/', '-')}-{'with' if with_java else 'without'}-java")
            yield job, (job.output / moment).exists, with_java
    for number in range(random_kills):
        at_s = time.monotonic() + rnd.uniform(0.2, seconds)
        yield (
            _copy(before, folder / f"random-{number}"),
            lambda at_s=at_s: time.monotonic() > at_s,
            rnd.random() < 0.5,
        )


def _kill_and_repeat(
    job: Job, happens: Callable[[], bool], with_java: bool, expected: dict[str, Any], tally: Counter[str]
) -> None:
    job.begin()
    if not job.kill_when(happens, with_children=with_java):
        tally["runs that had ended before they were to be killed"] += 1
        return
    tally[KILLS] += 1
    tally["   Java as well" if with_java else "   Python alone"] += 1
    plan, had_manifest = job.plan(RUN), job.runs == RUN
    code = job.run()
    assert code == (0 if had_manifest else 2), f"the next run ended with {code}, see {job.log}"
    assert job.runs == (RUN + 1 if had_manifest else RUN), f"{job.runs} runs"
    tally[BEHIND if had_manifest else BEFORE if plan is None else REPEATED] += 1
    assert plan in (None, job.plan(RUN)), "another plan"
    found = left(job.output)
    for name in {*expected, *found}:
        assert found.get(name) == expected.get(name), f"{name} is not that of an undisturbed run"
    tally[ROWS] += sum(len(rows) for rows in found.values() if isinstance(rows, list))
    print(f"{time.strftime('%H:%M:%S')}  {job.output.name}: as undisturbed", flush=True)
    shutil.rmtree(job.output)


def _copy(job: Job, output: Path) -> Job:
    """The same ledger elsewhere, and a job that goes on with it."""
    shutil.copytree(job.output, output)
    return Job(output, {}, job.arguments[4:])
