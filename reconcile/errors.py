"""Errors of the reconcile job.

ReconcileError
├── CannotJudge      what is needed for a judgement is not there
├── NoAnswer         the queue does not answer, or not in time: try again later
├── OtherCluster     the output directory belongs to another installation
├── RunInProgress    another run writes into the output directory
└── BadInput         a plan, a manifest or an archive that cannot be read
"""

from delayline.errors import DelaylineError


class ReconcileError(DelaylineError):
    """Base of everything that ends a run and is not our own fault."""


class CannotJudge(ReconcileError):
    """What is needed for a judgement is not there."""


class NoAnswer(ReconcileError):
    """The queue does not answer, or not in time: try again later."""


class OtherCluster(ReconcileError):
    """The output directory belongs to another installation: mixing ledgers would prove nothing."""


class RunInProgress(ReconcileError):
    """Another run writes into the output directory."""


class BadInput(ReconcileError):
    """A plan, a manifest or an archive that cannot be read."""
