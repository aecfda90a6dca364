"""As much of Airflow as the DAG in deploy/airflow asks for, for tests that have none: `make airflow` tries the real
one."""

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

from tests.fault.server import ROOT

DAG_FILE = ROOT / "deploy" / "airflow" / "delayline_reconcile.py"


class AirflowException(Exception):
    """Is tried again."""


class AirflowFailException(AirflowException):
    """Is not."""


class DAG:
    """Those that were made, and what with."""

    made: ClassVar[list["DAG"]] = []

    def __init__(self, name: str, **given: Any) -> None:
        self.name, self.given, self.tasks = name, given, list[Any]()

    def __enter__(self) -> "DAG":
        self.made.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Tasks that are made now belong to nothing."""


class BaseOperator:
    def __init__(self, **given: Any) -> None:
        self.given = given
        DAG.made[-1].tasks.append(self)


class Ended(NamedTuple):
    exit_code: int
    output: str


class SubprocessHook:
    """`ends` lists how each command ends."""

    ends: ClassVar[Callable[[list[str]], Ended]]
    signals: ClassVar[list[str]] = []

    def run_command(self, command: list[str]) -> Ended:
        return type(self).ends(command)

    def send_sigterm(self) -> None:
        self.signals.append("SIGTERM")


def _module(name: str, *members: Any) -> ModuleType:
    module = ModuleType(name)
    for member in members:
        setattr(module, member.__name__, member)
    return module


MODULES = {
    name: _module(name, *members)
    for name, members in {
        "airflow": (),
        "airflow.providers": (),
        "airflow.providers.standard": (),
        "airflow.providers.standard.hooks": (),
        "airflow.providers.standard.hooks.subprocess": (SubprocessHook,),
        "airflow.sdk": (DAG, BaseOperator),
        "airflow.sdk.exceptions": (AirflowException, AirflowFailException),
    }.items()
}


def load() -> DAG:
    """The DAG that the file makes, read anew."""
    DAG.made.clear()
    spec = spec_from_file_location("delayline_reconcile", DAG_FILE)
    assert spec is not None
    assert spec.loader is not None
    with patch.dict(sys.modules, MODULES):
        spec.loader.exec_module(module_from_spec(spec))
    (dag,) = DAG.made
    return dag
