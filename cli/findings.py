"""What an examination finds, and how it is printed."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    """`advice` is what to do, empty where there is nothing to do."""

    level: Level
    check: str
    detail: str
    advice: str = ""


def failed(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "fail" for finding in findings)


def lines(findings: Sequence[Finding]) -> list[str]:
    """One line each, and what to do below it."""
    printed = []
    for finding in findings:
        printed.append(f"{finding.level:<5} {finding.check}: {finding.detail}")
        if finding.advice:
            printed.append(f"      -> {finding.advice}")
    return printed


def document(findings: Sequence[Finding]) -> Mapping[str, object]:
    """For programs."""
    return {"ok": not failed(findings), "findings": [finding._asdict() for finding in findings]}
