"""`python -m reconcile` by a clock that is so many seconds ahead as the first argument: for it, windows in which
nothing is pending have closed, without a wait."""

import sys

from delayline.clock import SystemClock
from reconcile import __main__ as job


def main(ahead_s: int, arguments: list[str]) -> int:
    class Ahead(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + ahead_s * 1000

    job.SystemClock = Ahead  # type: ignore[attr-defined]
    return job.main(arguments)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
