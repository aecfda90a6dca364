"""Search many programs: `python -m tests.machine.run`, or `make machine`.

    EXAMPLES=10000   how many programs
    STEPS=50         how long each

Exit code 1 when the service and the model differed (the shortest such program is printed), or when a rule was never
followed or an outcome never met.
"""

import contextlib
import io
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.machine import HITS, WorkerMachine

EXAMPLES, STEPS, PROCESSES = 10_000, 50, 2
OUTCOMES = (
    "delivered: None", "cancelled: cancelled", "cancelled: purged", "expired: deadline", "duplicate: own-id",
    "duplicate: idempotency", "duplicate: idempotency-reused", "superseded: replaced",
)  # fmt: skip
"""What a search must have met at least once."""


def play(examples: int, steps: int) -> tuple[Counter[tuple[str, str]], str]:
    """Programs in this process: how often each rule was followed, and the failure if there is one."""
    HITS.clear()
    checked = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            run_state_machine_as_test(WorkerMachine, settings=checked)
    except Exception as error:  # noqa: BLE001 - whatever the service throws is what the search has found
        return Counter(HITS), f"{error!r}\n" + "\n".join(getattr(error, "__notes__", []))
    return Counter(HITS), ""


def never_met(hits: Counter[tuple[str, str]]) -> list[str]:
    """Outcomes that no program has come to."""
    return [outcome for outcome in OUTCOMES if not hits["outcome", outcome]]


def main() -> int:
    examples, steps = int(os.environ.get("EXAMPLES", EXAMPLES)), int(os.environ.get("STEPS", STEPS))
    started = time.monotonic()
    with Pool(PROCESSES) as pool:
        found = pool.starmap(play, [(-(-examples // PROCESSES), steps)] * PROCESSES)
    hits = sum((each for each, _ in found), Counter[tuple[str, str]]())
    for (name, came), count in sorted(hits.items()):
        print(f"{count:>9}  {name}{': ' + came if came else ''}")
    failures = [failure for _, failure in found if failure]
    for failure in failures:
        print(f"DIFFERS\n{failure}")
    missing = never_met(hits)
    for outcome in missing:
        print(f"NEVER MET  {outcome}")
    print(f"{examples} programs of up to {steps} steps, {time.monotonic() - started:.0f} s, {len(failures)} differ")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
