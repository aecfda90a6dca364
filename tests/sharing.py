"""How pytest's workers share the modules of a run: from both ends of one line.

At one end stand modules that mostly wait, for brokers, kills and due instants; at the other those that keep a
processor busy. Workers take from one end or the other, by their number, so that who waits leaves a processor to who
computes, and of what is started once per worker (Spark) there is mostly one. What is left when they meet are
the small modules of the middle: nobody ends long before the others.
"""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WAITING = ("tests/fault/", "tests/fuzz/", "tests/acceptance/", "tests/integration/", "tests/contract/")
BUSY = (
    *("tests/proxy_model/", "tests/wire_model/"),
    *("tests/console/", "tests/machine/", "tests/simulation/", "tests/deploy/", "tests/reconcile/"),
)
"""Outermost last. Whatever is in neither stands in the middle."""

SPARK_OF_ITS_OWN = ("tests/acceptance/test_reconcile_demo.py",)
"""Busy, wherever it lies."""


def place(nodeid: str) -> tuple[int, int]:
    """Where in the line a test stands; those of one folder stay in their order."""
    if nodeid.startswith(SPARK_OF_ITS_OWN):
        return 2, len(BUSY)
    for end, folders in ((0, WAITING), (2, BUSY)):
        for number, folder in enumerate(folders):
            if nodeid.startswith(folder):
                return end, number
    return 1, 0


class FromBothEnds(LoadScopeScheduling):
    """Workers with even numbers take the next module from the front of the line, the others from the back."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """A test that ended its process (or hung, until pytest's faulthandler ended it) has failed, and is not tried
        again: eight such processes would end the run."""
        for unit in self.assigned_work[node].values():
            for nodeid, completed in unit.items():
                if not completed:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        return super().remove_node(node)
