"""The DAG in deploy/airflow: when a run is tried again, and when somebody has to look. Airflow is a fake
(fake_airflow.py)."""

import shlex
from typing import Any

import pytest

from tests.deploy.commands import parse
from tests.deploy.exit_codes import AGAIN, CLEAN, exit_codes
from tests.deploy.fake_airflow import (
    DAG,
    AirflowException,
    AirflowFailException,
    Ended,
    SubprocessHook,
    load,
)

REPORT = "/var/lib/delayline/ledger/report.html"


class TaskInstance:
    def __init__(self) -> None:
        self.pushed: dict[str, str] = {}

    def xcom_push(self, key: str, value: str) -> None:
        self.pushed[key] = value


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> DAG:
    monkeypatch.delenv("RECONCILE_COMMAND", raising=False)
    monkeypatch.delenv("RECONCILE_SCHEDULE", raising=False)
    return load()


def executed(dag: DAG, code: int, ti: TaskInstance) -> Any:
    (task,) = dag.tasks
    SubprocessHook.ends = staticmethod(lambda command: Ended(code, f"the last line of {command[0]}."))
    return task.execute({"ti": ti})


def test_a_clean_run_ends_with_0_and_names_its_report(dag: DAG) -> None:
    ti = TaskInstance()
    assert executed(dag, CLEAN, ti) == REPORT
    assert ti.pushed == {"report": REPORT}


@pytest.mark.parametrize("code", sorted(exit_codes() - {CLEAN, AGAIN}))
def test_an_answer_fails_the_task_and_is_not_tried_again(dag: DAG, code: int) -> None:
    ti = TaskInstance()
    with pytest.raises(AirflowFailException) as failed:
        executed(dag, code, ti)
    last_line = "the last line of /opt/delayline/.venv/bin/delayline."
    assert f"(exit code {code}; {REPORT}): {last_line}" in str(failed.value)
    assert ti.pushed == {"report": REPORT}


@pytest.mark.parametrize("code", [AGAIN, -9, -15, 137])
def test_a_failure_is_tried_again(dag: DAG, code: int) -> None:
    with pytest.raises(AirflowException) as failed:
        executed(dag, code, TaskInstance())
    assert not isinstance(failed.value, AirflowFailException)
    (task,) = dag.tasks
    assert task.given["retries"] > 0


def test_a_task_that_is_given_up_ends_its_run(dag: DAG) -> None:
    (task,) = dag.tasks
    SubprocessHook.ends = staticmethod(lambda command: task.on_kill() or Ended(-15, "ended"))
    SubprocessHook.signals.clear()
    with pytest.raises(AirflowException):
        task.execute({"ti": TaskInstance()})
    assert SubprocessHook.signals == ["SIGTERM"]


def test_one_run_at_a_time_every_quarter_of_an_hour_and_none_for_the_past(dag: DAG) -> None:
    assert (dag.name, dag.given["schedule"]) == ("delayline_reconcile", "*/15 * * * *")
    assert (dag.given["max_active_runs"], dag.given["catchup"]) == (1, False)


def test_the_command_is_one_and_the_environment_names_another(dag: DAG, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = dag.tasks
    program, *arguments = shlex.split(task.command)
    assert (program.endswith("/.venv/bin/delayline"), parse(arguments)) == (True, "reconcile run")
    monkeypatch.setenv("RECONCILE_COMMAND", "python -m reconcile --output s3a://bucket/ledger/")
    monkeypatch.setenv("RECONCILE_SCHEDULE", "@hourly")
    other = load()
    assert other.given["schedule"] == "@hourly"
    ti = TaskInstance()
    assert executed(other, CLEAN, ti) == "s3a://bucket/ledger/report.html"
