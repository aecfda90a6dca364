"""The judge: `check` decides from a history alone whether the service kept its promises."""

from tests.simulation.checker.judge import check
from tests.simulation.checker.known import Violation

__all__ = ["Violation", "check"]
