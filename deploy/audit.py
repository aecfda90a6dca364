"""Whether a pinned package has a known vulnerability: `python deploy/audit.py BIN [--strict]`, with pip-audit in BIN.

Ends with 1 where one has. What no data can be had for is named, and is no fault without `--strict`: an index of a
company's own often has packages and no vulnerabilities.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class Audit(NamedTuple):
    """`vulnerable` are lines about them; `unaudited` are names, of `total` packages."""

    vulnerable: list[str]
    unaudited: list[str]
    total: int


def pins(folder: Path) -> list[list[str]]:
    """`name==version` of all locks there. pip-audit takes a name once, so further versions are in further lists."""
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for lock in folder.glob("*.txt"):
        for name, version in _PIN.findall(lock.read_text()):
            versions[name].add(version)
    if not versions:
        raise SystemExit(f"{folder} has no locks")
    columns = zip_longest(*(sorted(found) for _, found in sorted(versions.items())))
    return [
        [f"{name}=={one}" for name, one in zip(sorted(versions), column, strict=True) if one] for column in columns
    ]


def audited(bin: Path, pinned: list[str]) -> Audit:
    """Raises SystemExit where pip-audit gives no report."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("\n".join(pinned) + "\n")
        command = [str(bin / "pip-audit"), "--no-deps", "--disable-pip", "--progress-spinner=off", "-f", "json"]
        ran = subprocess.run([*command, "-r", str(requirements)], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise SystemExit(f"pip-audit gave no report: {ran.stderr.strip()[-500:]}") from None
    return Audit(
        [line for package in packages for line in _lines(package)],
        [package["name"] for package in packages if "skip_reason" in package],
        len(packages),
    )


def _lines(package: dict[str, object]) -> list[str]:
    vulnerabilities = package.get("vulns", [])
    assert isinstance(vulnerabilities, list), "pip-audit's own format"
    return [
        f"{package['name']} {package['version']}: {one['id']}, fixed in {' '.join(one['fix_versions']) or 'none'}"
        for one in vulnerabilities
    ]


def main(arguments: list[str]) -> None:
    match arguments:
        case [bin]:
            strict = False
        case [bin, "--strict"]:
            strict = True
        case _:
            raise SystemExit("usage: audit.py BIN [--strict]")
    audits = [audited(Path(bin), pinned) for pinned in pins(ROOT / "requirements")]
    vulnerable = [line for audit in audits for line in audit.vulnerable]
    unaudited = [name for audit in audits for name in audit.unaudited]
    total = sum(audit.total for audit in audits)
    print(f"audited {total - len(unaudited)} of {total} packages")
    if unaudited:
        print(f"no data about {len(unaudited)}: {', '.join(unaudited[:5])}{' ...' if len(unaudited) > 5 else ''}")
    for line in vulnerable:
        print(line)
    if vulnerable or (strict and unaudited):
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
