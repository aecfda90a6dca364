"""`make airflow`: the DAG in deploy/airflow under the real Airflow, which is too heavy for each run: it has an
environment of its own. Airflow must read the file without a complaint, and its task is executed three times over an
archive: with a finding in it, with nothing new, and while the ledger is locked.

    python -m tests.deploy.airflow_at_work AIRFLOW    (the folder of its programs)
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from reconcile.directory.lock import LOCK, Holder
from tests.deploy.fake_airflow import DAG_FILE
from tests.reconcile.archive import World

MINUTE_MS = 60_000
ELSEWHERE = Holder("elsewhere", pid=1, born=1, since_ms=0)
TASK = ("delayline_reconcile", "reconcile")


class Airflow:
    """A home of its own, in which nothing is but our DAG."""

    def __init__(self, programs: Path, folder: Path, command: str) -> None:
        self._program = programs / "airflow"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELAYLINE_", "AIRFLOW"))}
        self._environment: Mapping[str, str] = {
            **kept,
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAG_FILE.parent),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "RECONCILE_COMMAND": command,
        }

    def run(self, *arguments: str) -> str:
        """What it prints. Raises SystemExit: it failed."""
        ran = subprocess.run(
            [str(self._program), *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        if ran.returncode:
            sys.exit(f"airflow {' '.join(arguments)}: exit code {ran.returncode}\n{ran.stdout[-4000:]}")
        return ran.stdout

    def execute(self, day: int, state: str, expected: str) -> None:
        """The task, once. Raises SystemExit: it ends in another state, or does not print that."""
        output = self.run("tasks", "test", *TASK, f"2026-01-{day:02}")
        found = re.findall(r"new_state=(\w+)", output)
        if found != [state] or expected not in output:
            sys.exit(f"expected {state} and {expected!r}, got {found}\n{output[-6000:]}")
        print(f"{state}: {expected}", flush=True)


def main(programs: Path, folder: Path) -> None:
    world = World(folder / "archive", "orders", shards=1)
    world.send("orders", 0, MINUTE_MS)
    world.forget(world.send("orders", 0, MINUTE_MS))
    world.pass_on(60 * MINUTE_MS)
    world.write()
    ledger, program = folder / "ledger", Path(sys.executable).with_name("delayline")
    read = f"--reader parquet --input {world.folder} --master local[1]"
    airflow = Airflow(programs, folder, f"{program} reconcile run --output {ledger} {read}")
    airflow.run("db", "migrate")
    complaints = airflow.run("dags", "list-import-errors")
    if "No data found" not in complaints:
        sys.exit(complaints)
    print("the DAG is read without a complaint", flush=True)

    airflow.execute(1, "failed", f"there are new findings (exit code 2; {ledger}/report.html): run 1: ")
    airflow.execute(2, "success", "run 2: 0 findings in 0 windows")
    (ledger / LOCK).write_bytes(msgspec.json.encode(ELSEWHERE))
    airflow.execute(3, "up_for_retry", "the run failed (exit code 1) and is repeated: ")
    if sorted(path.name for path in ledger.glob("manifest-*")) != ["manifest-1.json", "manifest-2.json"]:
        sys.exit(f"{ledger} has not one manifest for each run that has ended")


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(Path(sys.argv[1]).resolve(), Path(made))
