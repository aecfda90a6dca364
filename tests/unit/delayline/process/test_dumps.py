"""Dumps are off in the process that calls for it, in both ways."""

import subprocess
import sys

import pytest

GET_DUMPABLE = 3

SHOWN = f"""
import ctypes, resource
from delayline.process.dumps import forbid_dumps
before = ctypes.CDLL(None).prctl({GET_DUMPABLE}, 0, 0, 0, 0)
forbid_dumps()
print(before, ctypes.CDLL(None).prctl({GET_DUMPABLE}, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_neither_a_signal_nor_another_process_of_the_user_gets_the_memory() -> None:
    shown = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, check=True).stdout
    assert shown == "1 0 (0, 0)\n"
