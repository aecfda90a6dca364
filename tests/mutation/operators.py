"""How a tagged statement is broken. An operator takes the node and gives what stands in its place.

Parts of a statement are called by their place, in the words of the `ast` module: `value.args[0]` of `x = f(a)` is
`a`, `test.values[1]` of `if a and b:` is `b`, `iter` of a `for` is what it goes through. So a rename changes nothing.
"""

import ast
import builtins
import re
import textwrap
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?")
_HOLE = re.compile(r"\$\{([^}]*)\}")
_FILLED = "_hole_"

Broken = ast.AST | list[Any] | None
"""What stands in the node's place: nothing, another node, or several."""


@dataclass(frozen=True, slots=True)
class Operator:
    """`names`: what it names itself, outside of the statement. A rename of these breaks it."""

    apply: Callable[[Any], Broken]
    names: frozenset[str] = frozenset()


# --- the whole


def _drop(node: ast.AST) -> Broken:
    return ast.Pass() if isinstance(node, ast.stmt) else None


drop = Operator(_drop)
"""The statement does nothing; a keyword argument is not given."""


def constant(value: object) -> Operator:
    """This value instead."""
    return Operator(lambda _: ast.parse(repr(value), mode="eval").body)


def part(path: str) -> Operator:
    """Only this part of it."""
    return Operator(lambda node: get(node, path))


def plus(number: int) -> Operator:
    """So much more."""
    return Operator(lambda node: ast.BinOp(node, ast.Add(), ast.Constant(number)))


def less_or_equal_is_less(node: ast.Compare) -> Broken:
    assert [type(one) for one in node.ops] == [ast.LtE]
    return ast.Compare(node.left, [ast.Lt()], node.comparators)


def greater_is_greater_or_equal(node: ast.Compare) -> Broken:
    assert [type(one) for one in node.ops] == [ast.Gt]
    return ast.Compare(node.left, [ast.GtE()], node.comparators)


less = Operator(less_or_equal_is_less)
"""`<` instead of `<=`."""
at_least = Operator(greater_is_greater_or_equal)
"""`>=` instead of `>`."""


def written(template: str) -> Operator:
    """This text instead, in which `${path}` is a part of the node, and `${}` the node."""
    return Operator(lambda node: _filled(template, node), _names_in(template))


def before(template: str) -> Operator:
    """This text before it: statements, or the cases of a `match`."""
    return Operator(lambda node: [*_filled(template, node), node], _names_in(template))


def after(template: str) -> Operator:
    """These statements behind it."""
    return Operator(lambda node: [node, *_filled(template, node)], _names_in(template))


# --- a part of it


def at(path: str, operator: Operator) -> Operator:
    """The operator, on this part."""

    def apply(node: ast.AST) -> ast.AST:
        where, field, index = _split(node, path)
        broken = operator.apply(get(node, path))
        assert isinstance(broken, ast.AST), f"{path}: an expression is not replaced by {broken!r}"
        if index is None:
            setattr(where, field, broken)
        else:
            getattr(where, field)[index] = broken
        return node

    return Operator(apply, operator.names)


def without(path: str) -> Operator:
    """This part is left out: an operand, an argument, a guard."""

    def apply(where: Any) -> ast.AST:
        field, index = _step(path.rpartition(".")[2])
        if index is None:
            setattr(where, field, None)
            return where
        del getattr(where, field)[index]
        alone = isinstance(where, ast.BoolOp) and len(where.values) == 1
        return where.values[0] if alone else where

    whole = path.rpartition(".")[0]
    return at(whole, Operator(apply)) if whole else Operator(apply)


def value(operator: Operator) -> Operator:
    """On what is assigned, returned or passed by keyword."""
    return at("value", operator)


def condition(operator: Operator) -> Operator:
    """On the condition of an `if`, `elif` or `while`."""
    return at("test", operator)


always = condition(constant(True))
never = condition(constant(False))


def both(first: Operator, then: Operator) -> Operator:
    """One after the other."""
    return Operator(lambda node: then.apply(first.apply(node)), first.names | then.names)


# --- places and text


def get(node: Any, path: str) -> Any:
    """The part of the node at this place."""
    for step in path.split(".") if path else ():
        field, index = _step(step)
        node = getattr(node, field)
        node = node if index is None else node[index]
    return node


def _step(text: str) -> tuple[str, int | None]:
    found = _STEP.fullmatch(text)
    assert found is not None, f"{text!r} is no place"
    return found[1], None if found[2] is None else int(found[2])


def _split(node: ast.AST, path: str) -> tuple[Any, str, int | None]:
    whole, _, last = path.rpartition(".")
    return get(node, whole), *_step(last)


def _parsed(text: str, node: ast.AST | None) -> Any:
    """As what the node is: an expression, statements or cases."""
    if isinstance(node, ast.match_case):
        return ast.parse("match 0:\n" + textwrap.indent(text, "    ")).body[0].cases  # type: ignore[attr-defined]
    return ast.parse(text, mode="eval").body if isinstance(node, ast.expr) else ast.parse(text).body


def _filled(template: str, node: ast.AST) -> Any:
    parts: list[ast.AST] = []

    def hole(found: re.Match[str]) -> str:
        parts.append(get(node, found[1]))
        return f"{_FILLED}{len(parts) - 1}"

    text = _HOLE.sub(hole, textwrap.dedent(template).strip())
    parsed = _parsed(text, node)
    filling = _Filling(parts)
    if isinstance(parsed, list):
        return [filling.visit(one) for one in parsed]
    filled = filling.visit(parsed)
    if hasattr(node, "ctx"):
        filled.ctx = node.ctx
    return filled


class _Filling(ast.NodeTransformer):
    def __init__(self, parts: list[ast.AST]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not node.id.startswith(_FILLED):
            return node
        found: Any = deepcopy(self._parts[int(node.id.removeprefix(_FILLED))])
        if hasattr(found, "ctx"):
            found.ctx = node.ctx
        return found


def _names_in(template: str) -> frozenset[str]:
    """What the text names that is neither Python's nor bound in the text itself."""
    text = _HOLE.sub(_FILLED, textwrap.dedent(template).strip())
    parsed = _parsed(text, ast.match_case() if text.startswith("case ") else None)  # type: ignore[call-overload]
    nodes = [node for one in parsed for node in ast.walk(one)]
    named: set[str] = set()
    own = {_FILLED, "_", "self", *dir(builtins)}
    for node in nodes:
        match node:
            case ast.Name(name, ast.Store()) | ast.arg(name) | ast.MatchAs(name=str(name)):
                own.add(name)
            case ast.Name(name) | ast.Attribute(attr=name):
                named.add(name)
            case ast.Call(ast.Name(function)) if hasattr(builtins, function):
                own |= {keyword.arg or "" for keyword in node.keywords}
            case ast.keyword(str(name)):
                named.add(name)
    return frozenset(named - own)
