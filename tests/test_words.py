"""One word for one thing: docs/GLOSSARY.md, held against the tree."""

import ast
import re
from collections import defaultdict

import pytest

from tests.test_tidy import ROOT, pages, product, tree

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: what belongs to it is unknown")

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"

NOT_IN_PAGES = re.compile(r"\b(corridors?|heirs?|doors?|attendants?|housekeepers?)\b", re.IGNORECASE)
"""Metaphors of our own, which a reader would have to learn. The field says entrance, owner, API, maintenance."""

RENAMED = frozenset(
    {
        *("Attendant", "Housekeeper", "Taken", "Finished", "Moving", "Moved", "Turns", "Desk", "Wish", "Judge"),
        *("Rest", "Elsewhere", "Twins", "Line", "Noting", "Rooms", "NearRecords", "FarRecords"),
    }
)
"""Names of classes that had the field's word put in their place. (`Moved` is also an act that the job reads.)"""
STILL = {"reconcile/acts.py:Moved"}

TWICE_MAX = 32
"""Class names that two modules of one package share. It only ever becomes less."""


def classes() -> list[tuple[str, str]]:
    """Module and name."""
    return [
        (name, node.name) for name in product() for node in ast.walk(tree(name)) if isinstance(node, ast.ClassDef)
    ]


def test_pages_use_no_metaphors_of_our_own() -> None:
    found = [f"{name}: {word[0]}" for name in pages() for word in NOT_IN_PAGES.finditer((ROOT / name).read_text())]
    assert found == []


def test_a_class_has_the_word_of_the_field() -> None:
    assert {f"{module}:{name}" for module, name in classes() if name in RENAMED} == STILL


def test_fewer_class_names_are_shared_within_a_package_and_never_more() -> None:
    modules = defaultdict(set)
    for module, name in classes():
        modules[module.split("/")[0], name].add(module)
    shared = sorted(key for key, found in modules.items() if len(found) > 1)
    assert len(shared) == TWICE_MAX, shared


def test_the_glossary_names_each_term_once_and_modules_that_there_are() -> None:
    rows = re.findall(r"^\| (.+?) \| .+? \| (.*?) ?\|$", GLOSSARY.read_text(), re.MULTILINE)
    terms = [term.strip() for first, _ in rows if first != "term" for term in first.split(",")]
    assert len(terms) > 40
    assert sorted(terms) == sorted(set(terms))
    named = [path for _, modules in rows for path in re.findall(r"`([\w/.]+)`", modules)]
    assert [path for path in named if not (ROOT / path).exists()] == []
