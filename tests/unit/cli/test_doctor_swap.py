"""The doctor looks at swap where data is encrypted: memory goes there in the clear."""

from pathlib import Path

from cli.machine_doctor import swap

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def test_swap_in_use_is_a_warning_that_names_it(tmp_path: Path) -> None:
    (file := tmp_path / "swaps").write_text(f"{HEADER}/dev/sda2\tpartition\t1\t0\t-2\n/swap\tfile\t1\t0\t-3\n")
    assert (swap(file).level, swap(file).detail) == ("warn", "in use: /dev/sda2, /swap")


def test_without_swap_or_without_the_table_there_is_nothing_to_do(tmp_path: Path) -> None:
    (file := tmp_path / "swaps").write_text(HEADER)
    assert [(swap(path).level, swap(path).advice) for path in (file, tmp_path / "none")] == [("ok", ""), ("ok", "")]
