"""`make reconcile-demo`: an hour of messages on the embedded queue, of which some are lost, doubled and worse; then
the reconcile job, which names each of them, and the repair of what is missing.

Everything lands in ./data-demo (or the folder that is named), which is made anew.
"""

import os
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.running import Server, variables
from demo.tampering import tamper
from demo.traffic import ROUNDS, STEP_MS, Chosen, pin, send_late, send_round, send_waiting
from reconcile.errors import ReconcileError
from reconcile.logic.ledger import Category
from reconcile.report.summary import Summary, decode_summary

MARKER = ".delayline-demo"
LOST, EARLY, CANCELLED, LATE = 4, 2, 1, 3
SPARE_MS = 10_000
"""The clock stays behind this machine's by that much at least, whatever the play takes."""

DELAYLINE = Path(sys.executable).with_name("delayline")

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "data-demo").resolve()
    _make_anew(folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DELAYLINE_")}
    environment |= variables(folder)
    server = Server(folder, environment)
    done_to_it = _hour(server, folder)
    summary = _run(folder, environment)
    _compare(done_to_it, summary)
    _repair(server, folder, environment)
    repaired = _run(folder, environment)
    _show_report(folder / "ledger" / "runs" / str(summary.run) / "report.html")
    return 0 if _found(summary) == done_to_it and Category.MISSING not in _found(repaired) else 1


def _make_anew(folder: Path) -> None:
    """Only a folder that an earlier play has left is removed. Raises SystemExit."""
    if folder.exists() and not (folder / MARKER).exists():
        raise SystemExit(f"{folder} is there already, and no earlier demo has made it: name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


def _hour(server: Server, folder: Path) -> dict[str, int]:
    """What ought to be found afterwards, by category."""
    console.print(f"An hour of messages, in {ROUNDS} rounds; the server's clock jumps from one to the next.")
    try:
        server.start((ROUNDS + 1) * STEP_MS + SPARE_MS)
        pin(server)
        cancelled: list[str] = []
        for number in range(ROUNDS - 3):
            cancelled += send_round(server, number)
            server.put_forward(STEP_MS)
        send_late(server, LATE)
        server.put_forward(STEP_MS)
        cancelled += send_round(server, ROUNDS - 3, awaited=LATE)
        ids = send_waiting(server, LOST + EARLY)
        chosen = Chosen(ids[:LOST], ids[LOST:], cancelled[:CANCELLED])
        done_to_it = _tampered(server, folder, chosen)
        for number in (ROUNDS - 2, ROUNDS - 1):
            server.put_forward(STEP_MS)
            send_round(server, number)
        server.put_forward(STEP_MS)  # beyond the last window: it can be judged
    finally:
        server.stop()
    return done_to_it | {Category.LATE: LATE}


def _tampered(server: Server, folder: Path, chosen: Chosen) -> dict[str, int]:
    """The server is stopped meanwhile."""
    behind_ms = server.behind_ms
    server.stop()
    console.print("The server is stopped. Something that must never happen is done to its queue by hand.")
    done_to_it = tamper(folder / "data", server, chosen)
    server.start(behind_ms)
    return done_to_it


def _run(folder: Path, environment: Mapping[str, str]) -> Summary:
    """Raises SystemExit where the job fails."""
    output = folder / "ledger"
    code = _type(environment, "reconcile", "run", "--output", str(output))
    try:
        summary = decode_summary((output / "summary.json").read_bytes())
    except (OSError, ReconcileError) as error:
        raise SystemExit(f"the job ended with {code} and left no summary: {error}") from None
    console.print(f"exit code {code}")
    return summary


def _repair(server: Server, folder: Path, environment: Mapping[str, str]) -> None:
    """Returns when what was missing has been delivered. Raises SystemExit, TimeoutError."""
    if code := _type(environment, "reconcile", "repair", str(folder / "ledger" / "repair-plan.json"), "--apply"):
        raise SystemExit(f"the repair ended with {code}")
    try:
        server.start(0)
        server.wait_for_deliveries(LOST)
    finally:
        server.stop()
    console.print("The server was there again, and has delivered them.")


def _type(environment: Mapping[str, str], *words: str) -> int:
    """A command as a user would type it; its exit code."""
    console.print(f"\n$ delayline {' '.join(words)}")
    return subprocess.run([DELAYLINE, *words], env=environment, check=False).returncode


def _found(summary: Summary) -> dict[str, int]:
    found = {category: sum(topic.findings.get(category, 0) for topic in summary.topics) for category in Category}
    return {category: count for category, count in found.items() if count}


def _compare(done_to_it: Mapping[str, int], summary: Summary) -> None:
    found = _found(summary)
    table = Table("", "done by hand", "found", box=None, pad_edge=False)
    for category in Category:
        if category in done_to_it or category in found:
            table.add_row(category, str(done_to_it.get(category, 0)), str(found.get(category, 0)))
    console.print(table)
    for finding in summary.findings:
        if finding.category == Category.MISSING:
            console.print(
                f"missing: {finding.id} lies in {finding.buffer}, partition {finding.shard}, {finding.offset}"
            )


def _show_report(path: Path) -> None:
    console.print(f"\nThe report: {path}")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
        webbrowser.open(path.as_uri())


if __name__ == "__main__":
    sys.exit(main())
