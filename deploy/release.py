"""The version of a release: `python deploy/release.py show`, `set 1.2.3`, or `check`.

`delayline/__init__.py` has it. `set` writes it there and into every file that names an image. `check` refuses a
commit that is tagged as another version, so that no wheel and no image can carry a wrong one; without a tag it
passes. Needs Python alone.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "delayline" / "__init__.py"
NAMING_IMAGES = (
    "Dockerfile",
    "docker-compose.yml",
    "docs/deploy.md",
    *(f"deploy/kubernetes/{name}.yaml" for name in ("api", "kustomization", "proxy", "reconcile", "worker")),
)

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_HOME = re.compile(rf'(__version__ = ")({_VERSION.pattern})(")')
_IMAGE = re.compile(rf"(\bdelayline(?:-reconcile)?:|\bnewTag: )({_VERSION.pattern})()")


def version() -> str:
    found = _HOME.search(HOME.read_text())
    if found is None:
        raise SystemExit(f"{HOME} has no __version__")
    return found[2]


def write(new: str) -> None:
    if not _VERSION.fullmatch(new):
        raise SystemExit(f"{new!r} is no version: expected three numbers, such as 1.2.3")
    for path, pattern in ((HOME, _HOME), *((ROOT / name, _IMAGE) for name in NAMING_IMAGES)):
        path.write_text(pattern.sub(rf"\g<1>{new}\g<3>", path.read_text()))


def tags() -> list[str]:
    """Of the commit that is checked out."""
    listed = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return [tag for tag in listed.stdout.split() if _VERSION.fullmatch(tag.removeprefix("v"))]


def check() -> None:
    for tag in tags():
        if tag != f"v{version()}":
            raise SystemExit(f"HEAD is tagged {tag}, and the program is {version()}: make version VERSION={tag[1:]}")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["show"]:
            print(version())
        case ["set", new]:
            write(new)
        case ["check"]:
            check()
        case _:
            raise SystemExit("usage: release.py show | set VERSION | check")


if __name__ == "__main__":
    main(sys.argv[1:])
