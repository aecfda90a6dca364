"""What an examination finds, and how it is printed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

Level = Literal["ok", "warn", "fail"]


class Finding(NamedTuple):
    """`advice` is what to do, empty where there is nothing to do."""

    level: Level
    check: str
    detail: str
    advice: str = ""


TOPICS_MAX = 200
"""An examination looks at so many one by one, with a few questions each."""


def no_answer(queue: str, servers: str, node: str, error: Exception) -> Finding:
    """Of a cluster; `node` is what answers for it."""
    advice = f"is mq.bootstrap_servers right, is a {node} up, and do mq.properties have what it asks for?"
    return Finding("fail", "queue", f"{queue} at {servers} does not answer: {error}", advice)


def left_out(enabled: Sequence[str]) -> Iterator[Finding]:
    """Where there are more topics than are looked at."""
    if len(enabled) > TOPICS_MAX:
        yield Finding("warn", "topics", f"only {TOPICS_MAX} of {len(enabled)} topics were looked at")


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
