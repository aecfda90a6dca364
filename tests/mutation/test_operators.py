"""What each operator makes of a tagged statement."""

import ast

import pytest

from tests.mutation.mutant import broken
from tests.mutation.operators import (
    Operator,
    after,
    always,
    at,
    at_least,
    before,
    both,
    condition,
    constant,
    drop,
    less,
    never,
    part,
    plus,
    value,
    without,
    written,
)
from tests.mutation.rules import rules_in


def result(line: str, how: Operator) -> str:
    (rule,) = rules_in(f"# rule here: why\n{line}\n", "module")
    return ast.unparse(broken(rule, how))


@pytest.mark.parametrize(
    ("line", "how", "expected"),
    [
        ("f(x)", drop, "pass"),
        ("return a", value(constant(None)), "return None"),
        ("x = a if b else c", value(part("orelse")), "x = c"),
        ("x = a", value(plus(1)), "x = a + 1"),
        ("x = a <= b", value(less), "x = a < b"),
        ("x = a > b", value(at_least), "x = a >= b"),
        ("x = f(a)", value(written("[${args[0]}, ${}]")), "x = [a, f(a)]"),
        ("x = f(a)", after("${targets[0]} += 1"), "x = f(a)\nx += 1"),
        ("x = f(a)", before("g()"), "g()\nx = f(a)"),
        ("x.y, z = f(a)", at("targets[0].elts[0]", written("_")), "_, z = f(a)"),
        ("f(a, b=c)", without("value.keywords[0]"), "f(a)"),
        ("return a and b", without("value.values[0]"), "return b"),
        ("return a and b and c", without("value.values[1]"), "return a and c"),
        ("x = y = a", without("targets[0]"), "y = a"),
        ("if a and b: f()", condition(part("values[1]")), "if b:\n    f()"),
        ("if a: f()", always, "if True:\n    f()"),
        ("while a: f()", never, "while False:\n    f()"),
        ("x = a <= b", both(value(less), value(at("left", plus(2)))), "x = a + 2 < b"),
    ],
)
def test_a_statement_is_broken_by(line: str, how: Operator, expected: str) -> None:
    assert result(line, how) == expected


def test_a_keyword_is_not_given() -> None:
    (rule,) = rules_in("f(\n    a,\n    # rule here: why\n    b=c,\n)\n", "module")

    assert ast.unparse(broken(rule, drop)) == "f(a)"


def test_a_case_comes_before_another_or_loses_its_guard() -> None:
    (rule,) = rules_in("match x:\n    # rule here: why\n    case 1 if y:\n        pass\n", "module")

    assert "case 2:\n        f()\n    case 1 if y:" in ast.unparse(broken(rule, before("case 2:\n    f()")))
    assert "case 1:" in ast.unparse(broken(rule, without("guard")))


@pytest.mark.parametrize(
    ("how", "names"),
    [
        (value(written("${func}(${args[0]}, 1)")), set()),
        (written("sorted(${}, key=lambda each: each[0])"), set()),
        (written("[one for one in ${} if one]"), set()),
        (written("self._late"), {"_late"}),
        (at("value", both(drop, written("${}.name(given=1)"))), {"name", "given"}),
        (before("case Lost(request):\n    return request"), {"Lost"}),
    ],
)
def test_an_operator_knows_what_it_names_itself(how: Operator, names: set[str]) -> None:
    assert how.names == names


def test_a_place_that_the_statement_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError):
        result("x = a", condition(constant(True)))
