"""Every tagged rule has a reason and a mutant, every mutant has a tagged rule."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.mutation.mutant import Mutant, broken, mutated
from tests.mutation.operators import drop
from tests.mutation.rules import Rule, TagError, find, rules, rules_in
from tests.proxy_model.mutants import MUTANTS as OF_THE_GATE
from tests.simulation.mutants import MUTANTS as OF_THE_CORE
from tests.test_tidy import ROOT
from tests.unit.api.test_undoing import MUTANTS as OF_UNDOS
from tests.unit.delay_service.core.test_shard import MUTANTS as OF_SHARDS
from tests.unit.delay_service.core.test_takeover import MUTANTS as OF_CLAIMS
from tests.unit.delay_service.worker.test_acquisition_mutants import MUTANTS as OF_TAKEOVERS
from tests.unit.delay_service.worker.test_lapses import MUTANTS as OF_LAPSES
from tests.unit.mq.rocketmq.test_mutants import MUTANTS as OF_ROCKETMQ
from tests.wire_model.mutants import MUTANTS as OF_THE_MACHINE

MUTANTS = (
    *OF_THE_CORE,
    *OF_THE_GATE,
    *OF_THE_MACHINE,
    *OF_TAKEOVERS,
    *OF_LAPSES,
    *OF_SHARDS,
    *OF_CLAIMS,
    *OF_ROCKETMQ,
    *OF_UNDOS,
)
NAMING_MAX = 38
"""Mutants that name something which the tagged statement does not: a rename breaks these, so there are few."""
WHY_WORDS_MIN = 4
LIST = ROOT / "docs" / "ARCHITECTURE.md"
LISTED = re.compile(r"^\| (`\S+\.py`(?:, `\S+\.py`)*) \| .* \| (tagged|in words) \|$", re.MULTILINE)


def test_each_tag_is_unique_in_the_tree() -> None:
    assert [tag for tag, count in Counter(rule.tag for rule in rules()).items() if count > 1] == []


def test_each_rule_states_what_breaks_without_it() -> None:
    assert [rule.tag for rule in rules() if len(rule.why.split()) < WHY_WORDS_MIN] == []


def test_each_rule_has_a_mutant() -> None:
    assert sorted({rule.tag for rule in rules()} - {mutant.tag for mutant in MUTANTS}) == []


def listed(kind: str) -> list[str]:
    """Files of the page's list whose rules are of that kind."""
    rows = LISTED.findall(LIST.read_text())
    return [path for files, how in rows if how == kind for path in re.findall(r"`(\S+?)`", files)]


def test_the_list_of_files_with_rules_has_those_with_tags_and_each_file_once() -> None:
    tagged, others = listed("tagged"), listed("in words")

    assert sorted(tagged) == sorted({rule.module.replace(".", "/") + ".py" for rule in rules()})
    assert len({*tagged, *others}) == len(tagged) + len(others)
    assert len(others) > 10


def test_each_mutant_is_listed_once() -> None:
    assert [words for words, count in Counter(mutant.broken for mutant in MUTANTS).items() if count > 1] == []


@cache
def as_it_is(source: str) -> str:
    return ast.dump(ast.parse(source))


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.broken for mutant in MUTANTS])
def test_each_mutant_compiles_to_something_else(mutant: Mutant) -> None:
    """Also those that only the thorough run lets loose."""
    tree = mutated(mutant)

    compile(tree, mutant.tag, "exec")
    assert ast.dump(tree) != as_it_is(find(mutant.tag).source)


def test_few_mutants_name_what_their_statement_does_not() -> None:
    naming = {mutant.broken: sorted(mutant.how.names) for mutant in MUTANTS if mutant.how.names}

    assert len(naming) <= NAMING_MAX, naming


# --- finding a rule


def only(source: str) -> Rule:
    (rule,) = rules_in(source, "module")
    return rule


def node(source: str) -> str:
    return ast.unparse(only(source).node(ast.parse(source)))


def test_a_tag_that_nobody_has_is_an_error() -> None:
    with pytest.raises(TagError, match="0 rules are tagged 'no-such-rule'"):
        mutated(Mutant("nothing", "no-such-rule", drop))


def test_a_tag_that_two_lines_have_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = "# rule twice: it would be late.\na = 1\n# rule twice: it would be late.\nb = 2\n"
    monkeypatch.setattr("tests.mutation.rules.rules", lambda: tuple(rules_in(twice, "module")))

    with pytest.raises(TagError, match=r"2 rules are tagged 'twice'.*module:2.*module:4"):
        mutated(Mutant("nothing", "twice", drop))


def test_a_tag_below_which_nothing_begins_is_an_error() -> None:
    rule = only("a = (\n    1\n    # rule here: it would be late.\n)\n")

    with pytest.raises(TagError, match="nothing begins on line 4"):
        broken(rule, drop)


def test_the_comment_goes_on_in_the_lines_below_it() -> None:
    rule = only("# rule here: it would\n# be late.\na = 1\n")

    assert (rule.tag, rule.why, rule.line) == ("here", "it would be late.", 3)


@pytest.mark.parametrize(
    ("source", "tagged"),
    [
        ("# rule a: why\nx = y = 1\n", "x = y = 1"),
        ("if a:\n    pass\n# rule a: why\nelif b:\n    pass\n", "if b:\n    pass"),
        ("x = (\n    a\n    # rule a: why\n    and b < c\n)\n", "b < c"),
        ("match x:\n    # rule a: why\n    case 1 if y:\n        pass\n", "case 1 if y:\n    pass"),
        ("f(\n    # rule a: why\n    b=c(1),\n)\n", "b=c(1)"),
        ("x = [\n    # rule a: why\n    (a, b),\n]\n", "(a, b)"),
    ],
)
def test_a_tag_stands_for_the_widest_thing_that_begins_below_it(source: str, tagged: str) -> None:
    assert node(source).strip() == tagged
