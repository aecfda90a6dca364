"""Each exit code of the reconcile commands has one meaning, and documents and help agree."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app, main
from reconcile.__main__ import main as reconcile_main
from reconcile.exits import IN_WORDS, Exit

DOCS = Path(__file__).resolve().parents[3] / "docs"


def squeezed(text: str) -> str:
    """Help is broken into lines, in boxes."""
    return re.sub(r"[\s│]+", " ", text)


def test_the_page_has_a_row_for_each_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| .+ \| .+ \|$", (DOCS / "reconcile.md").read_text(), re.MULTILINE)
    assert [(int(number), name) for number, name in rows] == [
        (code.value, code.name.lower().replace("_", " ")) for code in Exit
    ]


def test_the_command_line_s_page_has_them_in_words() -> None:
    assert f"{IN_WORDS}." in (DOCS / "command-line.md").read_text()


@pytest.mark.parametrize("command", ["run", "repair"])
def test_the_help_of_each_command_has_them(command: str) -> None:
    output = squeezed(CliRunner().invoke(app, ["reconcile", command, "--help"]).output)
    assert [f" {code.value} {code.name.lower().replace('_', ' ')}" in output for code in Exit] == [True] * len(Exit)


def test_the_help_of_the_module_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        reconcile_main(["--help"])
    assert IN_WORDS in squeezed(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["reconcile"], 64),
        (["reconcile", "--what"], 64),
        (["reconcile", "mend"], 64),
        (["reconcile", "run"], 64),
        (["reconcile", "run", "--output"], 64),
        (["reconcile", "run", "--output", "there", "--threshold", "many"], 64),
        (["reconcile", "run", "--output", "there", "--late-after", "soon"], 64),
        (["reconcile", "run", "--output", "\udcff"], 64),
        (["reconcile", "repair"], 64),
        (["reconcile", "repair", "there", "--max", "0"], 64),
        (["reconcile", "repair", "there", "--config", "nowhere.toml"], 64),
        (["topics", "--what"], 2),
        (["topics", "\udcff"], 2),
    ],
)
def test_what_was_typed_wrongly_is_no_finding(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["delayline", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
