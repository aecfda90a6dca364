"""Airflow: was everything delivered? A run of the reconcile job every quarter of an hour; see docs/deploy.md.

What differs from place to place stands in the environment of the scheduler and the workers:

    RECONCILE_COMMAND     the whole command, with an absolute --output
    RECONCILE_SCHEDULE    cron, or whatever Airflow takes as a schedule

A run that has failed is repeated as it was planned, so it is tried again. Findings, what could not be judged and
settings that are refused are answers: once more would change nothing, and somebody has to look.
"""

import os
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

COMMAND = os.environ.get(
    "RECONCILE_COMMAND",
    "/opt/delayline/.venv/bin/delayline reconcile run --output /var/lib/delayline/ledger --master local[2]",
)
SCHEDULE = os.environ.get("RECONCILE_SCHEDULE", "*/15 * * * *")

ANSWERS = {
    2: "there are new findings",
    3: "something could not be judged",
    64: "its settings are refused",
}
"""Exit codes that no repetition changes. Every other one but 0 is a failure: 1, or a signal's."""


def report_of(command: list[str]) -> str:
    """Where the command's report is. Raises ValueError: it names no output."""
    return f"{command[command.index('--output') + 1].rstrip('/')}/report.html"


class Reconcile(BaseOperator):
    """One run. What it prints is in the task's log, and the address of its report in the XCom `report`, however it
    ends."""

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command

    def execute(self, context: Any) -> str:
        """The report's address. Raises AirflowFailException for an answer, AirflowException for a failure."""
        command = shlex.split(self.command)
        report = report_of(command)
        self._hook = SubprocessHook()
        code, last_line = self._hook.run_command(command)
        context["ti"].xcom_push(key="report", value=report)
        if code in ANSWERS:
            raise AirflowFailException(f"{ANSWERS[code]} (exit code {code}; {report}): {last_line}")
        if code:
            raise AirflowException(f"the run failed (exit code {code}) and is repeated: {last_line}")
        return report

    def on_kill(self) -> None:
        """Airflow gives the task up: so does the run, which the next one repeats."""
        self._hook.send_sigterm()


with DAG(
    "delayline_reconcile",
    description="Delayline: was everything delivered?",
    schedule=SCHEDULE,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run reads all that is new, whenever it runs
    max_active_runs=1,  # two in one ledger at once are refused anyway
    tags=["delayline"],
):
    Reconcile(
        task_id="reconcile",
        command=COMMAND,
        retries=2,
        retry_delay=timedelta(minutes=2),
        execution_timeout=timedelta(hours=1),
    )
