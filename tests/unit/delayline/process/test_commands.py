"""Commands whose output is a secret."""

import sys
from pathlib import Path

import pytest

from delayline.process.commands import COMPLAINT_CHARS_MAX, CommandFailed, output_of

SECRET = "s3cret-output"


def run(text: str, seconds: float = 10.0, bytes_max: int = 100) -> bytes:
    return output_of([sys.executable, "-c", text], seconds=seconds, bytes_max=bytes_max)


def test_the_output_is_all_that_it_prints() -> None:
    assert run("import sys; print('a'); print('noise', file=sys.stderr); print('b')") == b"a\nb\n"


def test_words_are_passed_as_they_are_and_no_shell_reads_them(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys, os; print(sys.argv[1], os.getcwd())", "$HOME; *"]
    found = output_of(words, seconds=10, bytes_max=1000, folder=tmp_path)
    assert found.decode() == f"$HOME; * {tmp_path}\n"


@pytest.mark.parametrize(
    ("text", "why", "complaint"),
    [
        (f"import sys; print('{SECRET}'); sys.exit('no\\n token')", "exit code 1", "no token"),
        (f"import os; print('{SECRET}', flush=True); os.close(1); os.write(2, b'late'); os._exit(3)", "3", "late"),
        (f"import os; print('{SECRET}', flush=True); os.kill(os.getpid(), 9)", "ended by signal 9", ""),
        (f"print('{SECRET}' * 100)", "prints more than 100 bytes", ""),
    ],
)
def test_a_failure_names_the_end_and_the_complaint_and_never_the_output(text: str, why: str, complaint: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        run(text)
    assert why in str(failed.value)
    assert failed.value.complaint == complaint
    assert SECRET not in f"{failed.value!r} {failed.value.complaint}"


def test_one_that_hangs_is_ended_after_its_time() -> None:
    with pytest.raises(CommandFailed, match=r"not ended within 0\.5 s") as failed:
        run("import sys, time; print('why', file=sys.stderr, flush=True); time.sleep(600)", seconds=0.5)
    assert failed.value.complaint in ("why", "")  # as far as it came


def test_a_long_complaint_is_cut_to_its_end() -> None:
    with pytest.raises(CommandFailed) as failed:
        run("import sys; sys.stderr.write('x' * 100_000 + 'end'); sys.exit(1)")
    assert failed.value.complaint.endswith("xend")
    assert len(failed.value.complaint) == COMPLAINT_CHARS_MAX + len("...")


def test_a_complaint_is_one_line_that_a_terminal_does_not_obey() -> None:
    with pytest.raises(CommandFailed) as failed:
        run(r"import sys; sys.exit('\x1b[31mred\nnext\x9b1m \u202eleft \x07')")
    assert failed.value.complaint == r"\x1b[31mred next\x9b1m \u202eleft \x07"


OTHER = "import os, time\nif os.fork() == 0: time.sleep(600); os._exit(0)\n"
"""Starts a process that keeps the output open."""


def test_one_that_has_ended_counts_although_another_process_keeps_its_output_open() -> None:
    assert run(f"{OTHER}print('{SECRET}')") == f"{SECRET}\n".encode()


def test_its_exit_code_counts_although_another_process_keeps_its_output_open() -> None:
    with pytest.raises(CommandFailed, match="exit code 3"):
        run(f"{OTHER}os._exit(3)")


def test_one_that_is_not_there_is_reported() -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        output_of(["/nowhere/tool"], seconds=1, bytes_max=1)
