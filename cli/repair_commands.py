"""`delayline reconcile repair`: send lost messages again, by the plan of the reconcile job."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.asking import counted
from cli.failure import Failure
from cli.options import ConfigPath
from cli.output import beside_the_exit_code
from cli.tables import show_json, show_rows
from reconcile.exits import Exit

if TYPE_CHECKING:
    from delayline.config import Settings
    from mq.contract import Queue
    from reconcile.repair import Repair, RepairStep
    from reconcile.report.repair_plan import RepairPlan

COLUMNS = ("id", "topic", "partition", "offset", "what", "why")
MESSAGES_MAX = 100


def repair(
    plan: Annotated[Path, typer.Argument(help="repair-plan.json, as a run has written it.")],
    config: ConfigPath = None,
    apply: Annotated[bool, typer.Option("--apply", help="Send them. Without it, only look.")] = False,
    most: Annotated[int, typer.Option("--max", min=1, help="Refuse to send more than this.")] = MESSAGES_MAX,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is done as JSON.")] = False,
) -> None:
    """Put lost messages into the log again, under their own ids; those that have ended meanwhile are left alone.

    Exit codes: 0 clean, 1 failed, 2 found (some cannot be sent again), 3 cannot judge, 64 usage.
    """
    from delayline.clock import SystemClock
    from delayline.config import load_settings
    from delayline.names import Names
    from delayline.process import logs
    from delayline.process.dumps import forbid_dumps
    from reconcile.errors import CannotJudge, OtherCluster
    from reconcile.repair import Repair

    settings = load_settings(config, {}, os.environ, Path.cwd())
    logs.configure(settings.log.format, "error")
    forbid_dumps(unless=settings.process.memory_dumps)
    wanted = _read(plan)
    with _opened(settings) as queue:
        repairer = Repair(queue, settings.mq.kind, Names(settings.namespace), settings.rules_for, SystemClock())
        try:
            if apply:
                repairer.claim()
            steps = repairer.look(wanted)
        except OtherCluster as error:
            raise Failure(str(error), Exit.USAGE) from error
        except CannotJudge as error:
            raise Failure(str(error), Exit.CANNOT_JUDGE) from error
        todo = [step for step in steps if step.found is not None]
        if len(todo) > most and apply:
            raise Failure(f"{counted(len(todo), 'message')} to be sent again, --max is {most}", Exit.USAGE)
        steps = carried_out(repairer, steps) if apply else steps
    _show(steps, wanted, len(todo), apply, as_json)


def _read(path: Path) -> "RepairPlan":
    from reconcile.errors import BadInput
    from reconcile.report.repair_plan import check_listed_once, decode_repair_plan

    try:
        plan = decode_repair_plan(path.read_bytes())
        check_listed_once(plan)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}", Exit.USAGE) from error
    except BadInput as error:
        raise Failure(f"{path}: {error}", Exit.USAGE) from error
    return plan


@contextmanager
def _opened(settings: "Settings") -> "Iterator[Queue]":
    """The queue that is there; none is made. Raises QueueError."""
    from cli.queues import open_queue
    from delayline.clock import SystemClock
    from mq.errors import QueueLocked

    if settings.mq.kind == "embedded" and not (settings.data_dir / "queue" / "queue.json").exists():
        raise Failure(f"there is no queue in {settings.data_dir}", Exit.USAGE)
    try:
        queue = open_queue(settings, SystemClock())
    except QueueLocked as error:
        raise Failure(f"{error}; stop it, repair, and start it again") from error
    with closing(queue):
        yield queue


def carried_out(repairer: "Repair", steps: "Sequence[RepairStep]") -> "list[RepairStep]":
    from mq.errors import ClaimLost, QueueError
    from reconcile.repair import Verdict

    done: list[RepairStep] = []
    for step in steps:
        try:
            done.append(step if step.found is None else repairer.send(step))
        except QueueError as error:
            sent = sum(one.verdict is Verdict.SENT for one in done)
            if isinstance(error, ClaimLost):
                raise Failure(
                    f"another repair has begun, and sends what is left; {counted(sent, 'message')} sent before"
                ) from error
            raise Failure(
                f"{step.message.id}: {error or 'no answer'}; {counted(sent, 'message')} sent before. "
                "The same command again sends what is left"
            ) from error
    return done


def _show(steps: "Sequence[RepairStep]", plan: "RepairPlan", todo: int, applied: bool, as_json: bool) -> None:
    from reconcile.repair import UNREPAIRABLE

    with beside_the_exit_code():
        _print(steps, plan.more, todo, applied, as_json)
    if any(step.verdict in UNREPAIRABLE for step in steps):
        raise typer.Exit(Exit.FOUND)


def _print(steps: "Sequence[RepairStep]", more: int, todo: int, applied: bool, as_json: bool) -> None:
    if as_json:
        show_json({"applied": applied, "messages": [_document(step) for step in steps], "more": more})
        return
    if steps:
        show_rows(COLUMNS, [tuple(_document(step).values()) for step in steps])
    typer.echo(_summary(todo, more, applied), err=bool(steps))


def _document(step: "RepairStep") -> dict[str, object]:
    message, verdict, why, _ = step
    place = {"topic": message.topic, "partition": message.shard, "offset": message.offset}
    return {"id": message.id, **place, "what": verdict.value, "why": why}


def _summary(todo: int, more: int, applied: bool) -> str:
    if applied:
        summary = f"{counted(todo, 'message')} sent again"
    else:
        summary = f"{counted(todo, 'message')} to be sent again" + (": --apply does it" if todo else "")
    return f"{summary}; {more} more are missing that the plan does not list" if more else summary
