"""A mutant: the tag of a rule, and how the tagged statement is broken."""

import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.mutation.operators import Operator
from tests.mutation.rules import Rule, find


class Mutant(NamedTuple):
    """`broken` names the rule that no longer holds. A hunt begins with the seed `first`: nothing but time is saved by
    it."""

    broken: str
    tag: str
    how: Operator
    first: int = 0

    @property
    def module(self) -> str:
        """Where the rule stands. Raises TagError."""
        return find(self.tag).module


def mutated(mutant: Mutant) -> ast.Module:
    """The module with the rule broken. Raises TagError."""
    return broken(find(mutant.tag), mutant.how)


def broken(rule: Rule, how: Operator) -> ast.Module:
    """The rule's module with the tagged node replaced."""
    tree = ast.parse(rule.source)
    changed = _Breaking(rule.node(tree), how).visit(tree)
    assert isinstance(changed, ast.Module)
    return ast.fix_missing_locations(changed)


class _Breaking(ast.NodeTransformer):
    def __init__(self, node: ast.AST, how: Operator) -> None:
        self._node = node
        self._how = how

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST] | None:
        return self._how.apply(node) if node is self._node else self.generic_visit(node)


def load(mutant: Mutant, names: Sequence[str]) -> dict[str, ModuleType]:
    """These modules, built anew with the mutant in one of them; what others have imported stays what it was. Each may
    import those before it, and sees the new ones. Raises TagError."""
    assert mutant.module in names, f"{mutant.module} is not among those that are built"
    for name in names:
        importlib.import_module(name)
    modules: dict[str, ModuleType] = {}
    with _restored(names):
        for name in names:
            modules[name] = _compiled(name, mutant)
    return modules


def _compiled(name: str, mutant: Mutant) -> ModuleType:
    if name == mutant.module:
        tree = mutated(mutant)
    else:
        tree = ast.parse(Path(str(sys.modules[name].__file__)).read_text())
    module = sys.modules[name] = ModuleType(name)
    exec(compile(tree, f"<mutant of {name}>", "exec"), module.__dict__)
    return module


@contextmanager
def _restored(names: Sequence[str]) -> Iterator[None]:
    """Whatever is put in the place of these modules is gone afterwards."""
    kept = {name: sys.modules[name] for name in names}
    try:
        yield
    finally:
        sys.modules.update(kept)
