"""The job beside a live installation: runs while everything is killed, faults that are planted, repairs that are
killed or go on beside a run."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec

from reconcile.report.summary import Summary
from tests.brokers.kafka import Kafka
from tests.fault.kafka.clients import Mix
from tests.fault.kafka.nemesis import Nemesis
from tests.fault.kafka.scene import Scene, Size, scene
from tests.fault.reconcile import accounts, births
from tests.fault.reconcile.births import Births
from tests.fault.reconcile.changes import Changes, Kind
from tests.fault.reconcile.jobs import Command, Job
from tests.fault.reconcile.planted import Planted
from tests.fault.reconcile.runs import Runs, complaints

SIZE = Size(
    topics=2,
    partitions=2,
    workers=2,
    stream_rate=6,
    group_rate=10,
    post_rate=20,
    delay_max_ms=20_000,
    settings={"audit__low_water_interval": "1s", "delay__topics": f"orders-*,{births.PATTERN}"},
)
CHANGES_RATE = 6.0
"""A sender saves up for two seconds at most: half a batch each second, or it never sends one."""

AHEAD_S = 600
"""Of the clock of runs when nothing waits any more: what was just delivered stands in windows that are closed."""

RUNS_MAX = 6
"""Until a run has read all that has ended: workers report how far they are every second."""

LATE = ("--late-after", "10m")
"""Who is killed delivers late, and a busy machine makes that worse: that is no finding here."""

KILLED_REPAIRS, REPAIRS_BESIDE, LOST_EACH = 6, 4, 8
VICTIM_DELAY = "45s"

RECORDS = "records that the ledger accounts for"
REPAIR_KILLS = "repairs killed"
REPAIR_KILLS_OPEN = "   of them with their transaction open"
REPAIRED = "messages lost by hand and sent again once"
BESIDE = "repairs that ended while a run went on"
PLANTED = "faults planted and found"
BORN = "topics and partitions made between two runs and accounted for"
DELETED = "topics deleted between two runs with nothing pending"
BIRTHS = 3


class Live:
    """One installation and its ledger. `failures` in the scene."""

    def __init__(self, made: Scene, folder: Path, seed: int, runs: int) -> None:
        self.scene, self.seed, self._runs = made, seed, runs
        self.rnd = Random(f"{seed} live")
        self.settings = {name: value for name, value in made.api.settings.items() if not name.startswith("api__")} | {
            "data_dir": str(folder / "job-data")
        }
        self.job = Job(folder / "ledger", self.settings, LATE)
        self.later = Job(folder / "ledger", self.settings, LATE, AHEAD_S)
        mix = Mix(made.topics, made.size.partitions)
        self.changes = Changes(seed, mix, CHANGES_RATE, made.api_url)
        self.nemesis = Nemesis(made, Random(f"{seed} nemesis"))
        self.planted = Planted(made)
        self.victims: list[bytes] = []
        self._repair_s = 3.0  # how long the last one took
        self.failures = made.failures
        self.tally = made.tally

    # --- traffic

    def traffic(self) -> None:
        """Runs, one after the other, while senders send and everything is killed."""
        code = self.job.run()
        assert code == 0, f"the first run ended with {code}, see {self.job.log}"
        runs = Runs(self.job, self._runs, Random(f"{self.seed} runs"))
        self.scene.send()
        self.scene.senders.append(self.changes)
        self.changes.start()
        runs.start()
        try:
            while runs.is_alive():
                self._deed()
        finally:
            runs.stop() if runs.is_alive() else None
            runs.join(60)
        self.tally.update(runs.tally)
        self.failures += [*runs.failures, *runs.unexplained(self.scene.outages)]
        self.scene.hush()
        self.tally["seconds until nothing was pending"] += round(self.scene.drain())

    def _deed(self) -> None:
        nemesis = self.nemesis
        deeds = [nemesis.kill] * 4 + [nemesis.kill_all, nemesis.kill_api] + [nemesis.kill_broker] * 2
        deed = self.rnd.choice(deeds)
        print(f"{time.strftime('%H:%M:%S')}  {deed.__name__}", flush=True)
        deed()
        nemesis.rest(4, 12)

    # --- judged

    def settle(self, fresh: dict[str, int] | None = None) -> Summary:
        """Runs until nothing is pending, the last one of which is to find all of `fresh`.
        Returns the summary of the last one."""
        found: Counter[str] = Counter()
        for _ in range(RUNS_MAX):
            code = self.later.run()
            assert code in (0, 2, 3), f"a run ended with {code}, see {self.later.log}"
            summary = self.later.summary()
            now: Counter[str] = Counter()
            for topic in summary.topics:
                now.update(topic.fresh)
            found += now
            self.failures += complaints(summary, code, dict(now) if fresh else None)
            if (
                code != 3
                and not any(topic.ledger.pending for topic in summary.topics)
                and found >= Counter(fresh or {})
            ):
                break
            time.sleep(2)
        if dict(found) != (fresh or {}):
            self.failures.append(f"found in all: {dict(found)}, not {fresh or {}}: {summary.findings[:5]}")
        return summary

    def settled(self) -> None:
        """The last run: all that was accepted is accounted for."""
        self.balance(self.settle())
        self.against()

    def balance(self, summary: Summary) -> None:
        self.tally[RECORDS] = accounts.total(summary).accepted
        self.failures += accounts.unbalanced(self.scene, self.changes, self.victims, summary)

    def against(self, fresh: dict[str, int] | None = None) -> None:
        """The run against the topics finds this, and nothing else."""
        code = self.later.run("--against", "targets")
        summary = self.later.summary(_newest(self.later.output / "targets"))
        found = Counter(one.category for one in summary.findings)
        if (code, dict(found)) != (2 if fresh else 0, fresh or {}):
            named = [(one.category, one.id, one.detail) for one in summary.findings[:5]]
            self.failures.append(f"against the topics: {code}, {dict(found)}: {named}, {summary.not_judged[:3]}")

    def plant(self) -> None:
        self.against(wanted := self.planted.in_target())
        self.settle(others := self.planted.in_audit())
        self.tally[PLANTED] += sum(wanted.values()) + sum(others.values())
        self.settle()

    # --- repairs

    def repairs(self) -> None:
        """Messages are lost, found to be missing, and sent again by repairs: killed ones, and some beside runs."""
        before = accounts.values(self.scene)
        places = self._lose((KILLED_REPAIRS + REPAIRS_BESIDE) * LOST_EACH)
        plans = self._plans(places)
        for number, plan in enumerate(plans[:KILLED_REPAIRS]):
            self._repair_killed(plan, aimed=number % 2 == 0)
        for plan in plans[KILLED_REPAIRS:]:
            self._repair_beside_a_run(plan)
        self.scene.wait(lambda: not set(self.victims) - set(accounts.values(self.scene)), "what was lost comes", 120)
        self.tally["seconds until nothing was pending"] += round(self.scene.drain())
        summary = self.settle()
        carried, after = accounts.carried_on(self.scene), accounts.values(self.scene)
        twice = [place for place in places if carried[place] != 1]
        self.failures += [f"sent again {carried[place]} times: {place}" for place in twice]
        self.failures += [f"delivered {after[tag]} times: {tag!r}" for tag in self.victims if after[tag] != 1]
        self.tally[REPAIRED] += len(places) - len(twice)
        if sum((after - before).values()) != len(self.victims):
            self.failures.append("something else was delivered as well")
        missing = accounts.total(summary).missing
        self.failures += [f"{missing} are missing after all repairs"] if missing else []

    def _lose(self, count: int) -> list[tuple[str, int, int]]:
        """Their places, once a run has found them missing."""
        ids = []
        for topic in self.scene.topics:
            tags = [f"victim-{topic}-{number}" for number in range(count // len(self.scene.topics))]
            messages = [{"key": tag, "value": tag, "schedule": {"delay": VICTIM_DELAY}} for tag in tags]
            url = f"{self.scene.api_url}/v1/topics/{topic}/messages"
            answer = httpx.post(url, json={"atomic": True, "messages": messages}, timeout=30)
            assert answer.status_code == 201, answer.text
            ids += [one["message"]["message_id"] for one in answer.json()["results"]]
            self.victims += map(str.encode, tags)
        self.planted.lost(ids, self.nemesis)
        self.scene.wait(self.scene.all_owned, "every shard has an owner", 90)
        self.scene.drain()
        self.settle({"missing": len(ids)})
        split = [one.rsplit(".", 3) for one in ids]
        return [(topic, int(shard), int(offset)) for topic, shard, offset, _ in split]

    def _plans(self, places: Sequence[tuple[str, int, int]]) -> list[Path]:
        """The run's plan, in parts."""
        whole = self._plan_with(places)
        listed = whole["messages"]
        assert len(listed) == len(places), f"{len(listed)} of {len(places)} are listed"
        self.rnd.shuffle(listed)
        paths = []
        for number in range(len(listed) // LOST_EACH):
            part = whole | {"messages": listed[number * LOST_EACH : (number + 1) * LOST_EACH]}
            paths.append(self.later.output.with_name(f"plan-{number}.json"))
            paths[-1].write_text(json.dumps(part))
        return paths

    def _plan_with(self, places: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
        """Of the run that has listed them."""
        for path in sorted(
            (self.later.output / "runs").glob("*/repair-plan.json"), key=lambda one: -int(one.parent.name)
        ):
            whole: dict[str, Any] = msgspec.json.decode(path.read_bytes())
            if len(whole["messages"]) == len(places):
                return whole
        raise AssertionError("no plan lists what was lost")

    def _repairer(self, plan: Path) -> tuple[Command, Callable[[], None]]:
        command = Command(plan.with_suffix(".log"), self.settings)
        return command, lambda: command.start("delayline", "reconcile", "repair", str(plan), "--apply", "--json")

    def _repair_killed(self, plan: Path, *, aimed: bool) -> None:
        """Killed twice at most, then whole."""
        command, start = self._repairer(plan)
        claim = self.scene.names.claim("repair")
        for _ in range(2):
            start()
            until_s = time.monotonic() + self.rnd.uniform(0.3, 1.0) * self._repair_s
            happens = (
                (lambda: claim in self.scene.transactions.open())
                if aimed
                else (lambda at=until_s: time.monotonic() > at)
            )
            if command.kill_when(happens):
                self.tally[REPAIR_KILLS] += 1
                self.tally[REPAIR_KILLS_OPEN] += claim in self.scene.transactions.open()
        start()
        self._ended_well(command)

    def _repair_beside_a_run(self, plan: Path) -> None:
        command, start = self._repairer(plan)
        self.later.begin()
        self.nemesis.rest(1, 6)
        start()
        self._ended_well(command)
        self.tally[BESIDE] += self.later.running
        code = self.later.wait()
        assert code in (0, 2, 3), f"a run ended with {code}, see {self.later.log}"
        self.failures += complaints(self.later.summary(), code)

    def _ended_well(self, command: Command) -> None:
        code = command.wait()
        self._repair_s = command.seconds
        if code != 0:
            self.failures.append(f"a repair ended with {code}, see {command.log}")

    # --- what comes and goes between two runs

    def born(self) -> None:
        """Each round has a new topic, a new partition of the last one's, and no topic of the one before that. Half
        of the runs are killed first. Comes last: nothing else expects these topics."""
        made = Births(self.scene)
        topics = [births.PATTERN.replace("*", str(number)) for number in range(BIRTHS)]
        for number, topic in enumerate(topics):
            made.make(topic)
            if number >= 1:
                made.grow(topics[number - 1])
            if number >= 2:
                made.delete(topics[number - 2])
                self.tally[DELETED] += 1
            if number % 2:
                self.later.begin()
                self.nemesis.rest(2, 8)
                self.later.kill()
            wrong = made.wrong(self.settle())
            self.failures += wrong
            self.tally[BORN] += (1 if number == 0 else 2) if not wrong else 0


def _newest(folder: Path) -> str:
    """The summary that was written last, as the ledger names it."""
    return str(max(folder.rglob("summary.json"), key=lambda path: path.stat().st_mtime).relative_to(folder.parent))


@contextmanager
def live(seed: int, folder: Path, runs: int) -> Iterator[Live]:
    """Raises Unavailable."""
    with closing(Kafka(1)) as kafka:
        kafka.start()
        with scene(kafka, SIZE, seed, folder) as made:
            made.start()
            yield Live(made, folder, seed, runs)


def play(seed: int, folder: Path, runs: int) -> tuple[Counter[str], list[str]]:
    """All of it, in this order: each part goes on from the ledger that the one before has left."""
    with live(seed, folder, runs) as one:
        try:
            for part in (one.traffic, one.settled, one.plant, one.repairs, one.born):
                part()
                print(f"{time.strftime('%H:%M:%S')}  {part.__name__} done, {len(one.failures)} failures", flush=True)
        except AssertionError as error:
            one.failures.append(str(error))
        one.tally["messages acknowledged to senders"] = len(one.changes.acknowledged) + sum(
            sent.place is not None for sent in one.scene.ledger.sent.values()
        )
        one.tally["cancels confirmed"] = len(one.changes.cancelled)
        one.tally["moves confirmed"] = len(one.changes.moved)
        one.tally["sent with a deadline or a repeat"] = sum(
            kind in (Kind.BRIEF, Kind.LASTING, Kind.REPEATED) for kind in one.changes.sent.values()
        )
        return one.tally, one.failures
