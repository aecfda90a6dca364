"""The list of benches: what `python -m bench` runs is a bench, and the page names it."""

import re
from importlib import import_module
from pathlib import Path

import bench
from bench.__main__ import benches

PAGE = Path(bench.__file__).with_name("README.md")


def test_whatever_is_run_as_a_bench_is_one() -> None:
    assert [name for name in benches() if not hasattr(import_module(f"bench.{name.replace('-', '_')}"), "run")] == []


def test_the_page_names_all_benches_and_no_other() -> None:
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)) == benches()
