"""The commands of the how-to pages, run."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeServer
from tests.acceptance.pages import Step, comes_out, read_page, type_in
from tests.fault.server import ROOT
from tests.tiers import sample

PAGES = [*sorted((ROOT / "docs" / "howto").glob("*.md")), ROOT / "docs" / "command-line.md"]


@pytest.mark.parametrize("path", sample(PAGES, every=len(PAGES)), ids=[path.stem for path in PAGES])
def test_a_page_shows_what_really_happens(path: Path, make_server: MakeServer, tmp_path: Path) -> None:
    page = read_page(path)
    config = tmp_path / "delayline.toml"
    config.write_text(page.config)
    server = make_server(config=str(config))
    server.start()
    server.wait_ready()
    outputs = type_in(page.steps, server.url, tmp_path)
    assert len(outputs) == len(page.steps)
    for step, output in zip(page.steps, outputs, strict=True):
        assert comes_out(step.output, output), f"$ {step.command}\npage: {step.output}\ncame: {output}"


@pytest.mark.parametrize(
    ("expected", "output", "is_right"),
    [
        ("", "", True),
        ("", "curl: (7) failed", False),
        ("due ... ms", "due in 7 ms", True),
        ("due ... ms", "due in 7 s", False),
        ("(a.b)", "(a.b)", True),
        ("(a.b)", "(axb)", False),
        ("2026-01-01T00:00:00.000Z 1767225630000", "2027-06-05T01:00:00.100Z 1812157230200", True),
        ("2026-01-01T00:00:00.000Z 1767225630000", "2027-06-05T01:00:00.100Z 1812157231200", False),
        ("at 2026-01-01T00:00:00.000Z", "at null", False),
    ],
)
def test_a_page_is_compared_by_what_can_be_the_same_twice(expected: str, output: str, is_right: bool) -> None:
    assert comes_out(expected, output) is is_right


def test_commands_and_what_comes_of_them_are_distinguished(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n```toml\nx = 1\n```\nb\n```console\n$ n=1\n$ echo \\\n$n\n1\n2\n$ echo\n```\n")
    assert read_page(page) == ("x = 1\n", [Step("n=1", ""), Step("echo $n", "1\n2"), Step("echo", "")])


def test_a_page_without_commands_is_not_taken_for_a_good_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\necho\n```\n")
    with pytest.raises(ValueError, match="begins with a command"):
        read_page(page)
    page.write_text("nothing")
    with pytest.raises(ValueError, match="0 commands"):
        read_page(page)
