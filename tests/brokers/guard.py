"""Run a command that must not outlive the process that started this one: `python guard.py <log file> <command...>`.

Prints the command's pid. Our stdin is a pipe that only the starter holds: it ends when the starter does, in
whatever way, and then the command is killed. We end when the command ends.
"""

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread


def main() -> None:
    log, *command = sys.argv[1:]
    with Path(log).open("ab") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    print(child.pid, flush=True)

    def follow() -> None:
        os._exit(child.wait() & 0xFF)

    Thread(target=follow, daemon=True).start()
    sys.stdin.buffer.read()
    child.kill()
    child.wait()


if __name__ == "__main__":
    main()
