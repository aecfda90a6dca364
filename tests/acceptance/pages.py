"""How-to pages (docs/howto) as scripts: the commands of a page are run, and the output must be what it shows.

    ```toml       at most one: the configuration of the server that the page assumes (delayline.toml)
    ```console    lines that begin with `$ ` are typed, in one shell per page, where $url is the server and
                  `delayline` the command; a line that ends in a backslash goes on; what follows is what must come out

In what comes out `...` stands for anything. Moments and message ids cannot be the same twice: of those only the
distances from the first one on are compared, to the second.
"""

import re
import subprocess
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.asking import DELAYLINE
from tests.fault.server import environment

SHELL_WITHIN_S = 120
APART_MAX_MS = 1000

_BLOCK = re.compile(r"```(console|toml)\n(.*?)```", re.DOTALL)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\b\d{13}\b")
_VARIES = re.compile(rf"({_MOMENT.pattern}|\.\.\.)")
_MARK = "=-=-= step ended ="


class Step(NamedTuple):
    """A command, and its output on the page; "" where it shows none."""

    command: str
    output: str


class Page(NamedTuple):
    """A how-to page, as far as it can be carried out."""

    config: str
    steps: list[Step]


def read_page(path: Path) -> Page:
    """Raises ValueError for a page without commands, or has two configurations."""
    blocks = _BLOCK.findall(path.read_text())
    configs = [text for language, text in blocks if language == "toml"]
    steps = [step for language, text in blocks if language == "console" for step in _steps(text)]
    if len(configs) > 1 or not steps:
        raise ValueError(f"{path.name}: {len(configs)} configurations, {len(steps)} commands")
    return Page("".join(configs), steps)


def _steps(block: str) -> list[Step]:
    lines = block.replace("\\\n", "").splitlines()
    if not lines[0].startswith("$ "):
        raise ValueError(f"a console block begins with a command, not with {lines[0]!r}")
    found: list[Step] = []
    for is_command, group in groupby(lines, lambda line: line.startswith("$ ")):
        if is_command:
            found += [Step(line[2:], "") for line in group]
        else:
            found[-1] = found[-1]._replace(output="\n".join(group))
    return found


def type_in(steps: Sequence[Step], url: str, cwd: Path, within_s: float = SHELL_WITHIN_S) -> list[str]:
    """What each command printed, errors too; as many as there are steps."""
    script = "".join(f"{step.command}\nprintf '\\n{_MARK}\\n'\n" for step in steps)
    path = f"{DELAYLINE.parent}:/usr/bin:/bin"
    ended = subprocess.run(
        ["bash", "-s"],
        cwd=cwd,
        env=environment(url=url, DELAYLINE_URL=url, PATH=path),
        input=script,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    return [output.strip("\n") for output in ended.stdout.split(_MARK)[:-1]]


def comes_out(expected: str, output: str) -> bool:
    """Whether a page that shows `expected` is right about `output`."""
    parts = _VARIES.split(expected)
    pattern = "".join(_pattern_of(part) for part in parts)
    found = re.fullmatch(pattern, output, re.DOTALL)
    if found is None:
        return False
    moments = [_ms(part) for part in parts if _MOMENT.fullmatch(part)]
    seen = [_ms(moment) for moment in found.groups()]
    distances = [(a - moments[0]) - (b - seen[0]) for a, b in zip(moments, seen, strict=True)]
    return all(abs(apart_ms) < APART_MAX_MS for apart_ms in distances)


def _pattern_of(part: str) -> str:
    if part == "...":
        return ".*?"
    return f"({_MOMENT.pattern})" if _MOMENT.fullmatch(part) else re.escape(part)


def _ms(moment: str) -> int:
    return int(moment) if moment.isdecimal() else round(datetime.fromisoformat(moment).timestamp() * 1000)
