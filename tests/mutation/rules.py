"""The rules that comments in the source tag: `# rule TAG: why`, above the line that keeps the rule."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.test_tidy import PACKAGES, ROOT, RULE

_COMMENT = re.compile(r"\s*#(.*)")


class TagError(Exception):
    """No comment has the tag, or more than one does, or no code begins below it."""


class Rule(NamedTuple):
    """A tagged line: `line` is the number of the code below the comment."""

    tag: str
    why: str
    module: str
    line: int
    source: str

    def node(self, tree: ast.Module) -> ast.AST:
        """The outermost node of the module's tree that begins on the line. Raises TagError."""
        for node in ast.walk(tree):  # parents come before their children
            if _begins(node) == self.line:
                return node
        raise TagError(f"nothing begins on line {self.line} of {self.module}, below the rule {self.tag}")


def _begins(node: ast.AST) -> int | None:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    return getattr(node, "lineno", None)


@cache
def rules() -> tuple[Rule, ...]:
    """All of the tree."""
    return tuple(
        rule
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for rule in rules_in(path.read_text(), _module(path))
    )


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rules_in(source: str, module: str) -> Iterator[Rule]:
    """Those of one module. The comment goes on in the comment lines below it."""
    lines = source.split("\n")
    for start, line in enumerate(lines):
        if (found := RULE.fullmatch(line)) is None:
            continue
        whys, end = [found[2].strip()], start + 1
        while end < len(lines) and (more := _COMMENT.fullmatch(lines[end])):
            whys.append(more[1].strip())
            end += 1
        yield Rule(found[1], " ".join(whys).strip(), module, end + 1, source)


def find(tag: str) -> Rule:
    """The rule with this tag. Raises TagError."""
    found = [rule for rule in rules() if rule.tag == tag]
    if len(found) != 1:
        raise TagError(f"{len(found)} rules are tagged {tag!r}: {[f'{rule.module}:{rule.line}' for rule in found]}")
    return found[0]
