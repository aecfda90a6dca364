"""One word for one thing: docs/GLOSSARY.md, held against the tree."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from cli.main import app
from tests.test_tidy import ROOT, nodes, pages, product, tracked

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: what belongs to it is unknown")

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"

METAPHORS = re.compile(
    r"\b(corridors?|heirs?|doors?|attendants?|housekeepers?|weather|the judge|a judge|his|hers?|buried|bury)\b"
    r"|\bown rooms?\b|\broom of its own\b",
    re.IGNORECASE,
)
"""Metaphors of our own, which a reader would have to learn, and processes as persons. The field says entrance, owner,
API, maintenance, checker."""

INVERSIONS = re.compile(
    r"\b(whoever|what (?:has )?bec[oa]me of|what becomes of|(?<!confirmed )in vain|(?:is|are|was|were) told"
    r"|stands? (?:in|for it|otherwise|there|beside)|lies? in|for who(?:m)? only|who asks|is nowhere|of no matter)\b"
    r"|\b(?:nobody|somebody)\b",
    re.IGNORECASE,
)
"""What a reader has to turn round before understanding it. Say who does what: "the owner does not answer"."""

RENAMED = frozenset(
    {
        *("Attendant", "Housekeeper", "Taken", "Finished", "Moving", "Moved", "Turns", "Desk", "Wish", "Judge"),
        *("Rest", "Elsewhere", "Twins", "Line", "Noting", "Rooms", "NearRecords", "FarRecords"),
    }
)
"""Names of classes that had the field's word put in their place. (`Moved` is also an act that the job reads.)"""

VAGUE = re.compile(r"(?<![a-z0-9])(?:tells?|told|telling|says?|said|saying)(?![a-z0-9])", re.IGNORECASE)
"""Used for the field's verbs: returns, reports, names, records, answers, is passed. Parts of identifiers count."""
VAGUE_MAX = {"reconcile": 13, "pages": 3, "tests": 1}
"""`VAGUE` in the files of a folder, or in the pages (`.md`); 0 where it is not named. It only ever becomes less."""

STILL = {"reconcile/logic/acts.py:Moved"}

CONFIGURATION = re.compile(
    r"\.(ya?ml|toml|service|timer|conf|properties)$|(^|/)(Makefile|Dockerfile|\.dockerignore|\.gitignore)$|^\.ci/"
)
"""Files of other programs that we write, whose comments begin with `#`."""

REPLACED = re.compile(r"settle|(?<![a-z])(?:claimants?|doors?)(?![a-z])")
"""Parts of identifiers that had several meanings each. The glossary has a word for each meaning: complete, stable,
recover, resolve; conditional message; API, proxy."""
SCOPED = {
    "piece": ("kafkawire/", "rocketmq/wire/", "proxy/kafka/response_order.py", "proxy/kafka/frontend/"),
    "elsewhere": ("kafkawire/client/", "mq/kafka/data_path/", "reconcile/spark/", "store/memory_tier.py"),
}
"""Words with one meaning, and the modules that it belongs to: a piece is part of a byte stream, elsewhere another
broker, side or tier."""


def classes() -> list[tuple[str, str]]:
    """Module and name."""
    return [(name, node.name) for name in product() for node in nodes(name) if isinstance(node, ast.ClassDef)]


def found_in(text: str, *words: re.Pattern[str]) -> list[str]:
    return [found[0] for pattern in words for found in pattern.finditer(text)]


def _prose(page: str) -> str:
    """Without blocks, code between back ticks and targets of links: headings keep their names."""
    plain = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", plain)


def _texts(name: str) -> Iterator[tuple[int, str]]:
    """Texts of a module that a user may see: all but docstrings."""
    silent = {id(node.value) for node in nodes(name) if isinstance(node, ast.Expr)}  # a text that is a statement
    for node in nodes(name):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def helps(command: Any) -> Iterator[str]:
    yield command.help or ""
    yield from (getattr(option, "help", None) or "" for option in command.params)
    for child in getattr(command, "commands", {}).values():
        yield from helps(child)


def test_pages_use_no_metaphors_of_our_own() -> None:
    found = [f"{name}: {word}" for name in pages() for word in found_in(_prose(name), METAPHORS)]
    assert found == []


def test_pages_for_users_name_who_does_what() -> None:
    plain = pages()
    assert len(plain) > 15
    assert [f"{name}: {word}" for name in plain for word in found_in(_prose(name), INVERSIONS)] == []


def test_errors_and_other_texts_name_who_does_what() -> None:
    found = [
        f"{name}:{line}: {word}"
        for name in product()
        for line, text in _texts(name)
        for word in found_in(text, METAPHORS, INVERSIONS)
    ]
    assert found == []


def _docstrings(name: str) -> Iterator[str]:
    """Those of modules, classes and functions, and the texts below attributes."""
    for node in nodes(name):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_docstrings_name_who_does_what() -> None:
    found = [
        f"{name}: {word}"
        for name in product()
        for text in _docstrings(name)
        for word in found_in(text, METAPHORS, INVERSIONS)
    ]
    assert found == []


def _comments(text: str) -> str:
    """All of a configuration file as one text: a phrase may begin on one line and end on the next."""
    return " ".join(re.findall(r"(?:^|\s)#+ *(.*)$", text, re.MULTILINE))


def test_comments_in_configuration_name_who_does_what() -> None:
    names = [name for name in tracked() if CONFIGURATION.search(name)]
    assert {"Makefile", "Dockerfile", "docker-compose.yml", "pyproject.toml", ".ci/run"} <= set(names)
    found = [
        f"{name}: {word}"
        for name in names
        for word in found_in(_comments((ROOT / name).read_text()), METAPHORS, INVERSIONS)
    ]
    assert found == []


def test_a_comment_is_found_where_it_begins_the_line_and_behind_a_setting() -> None:
    text = "# what has\n#   become of it\nport: 80  # the door\nmake:   ## for nobody\nname: a#heir\n"
    assert found_in(_comments(text), METAPHORS, INVERSIONS) == ["door", "what has become of", "nobody"]


def test_acts_have_the_verbs_of_the_field() -> None:
    counted: Counter[str] = Counter()
    for name in tracked():
        is_ours = name.endswith((".py", ".md", ".html", ".js")) or CONFIGURATION.search(name)
        if is_ours and name != "tests/test_words.py":
            counted["pages" if name.endswith(".md") else name.split("/")[0]] += len(
                found_in((ROOT / name).read_text(), VAGUE)
            )
    assert {place: count for place, count in counted.items() if count > VAGUE_MAX.get(place, 0)} == {}


def test_the_help_of_commands_names_who_does_what() -> None:
    texts = list(helps(get_command(app)))
    assert len(texts) > 100
    assert [word for text in texts for word in found_in(text, METAPHORS, INVERSIONS)] == []


def test_the_console_names_who_does_what() -> None:
    scripts = sorted((ROOT / "api" / "console").rglob("*.js"))
    texts = [text for path in scripts for text in re.findall(r'"([^"\n]* [^"\n]*)"', path.read_text())]
    assert len(texts) > 100
    assert [text for text in texts if found_in(text, METAPHORS, INVERSIONS)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever was fenced leaves it to his heir",
        "it says what became of it",
        "nobody answers for this message",
        "the row stands in the audit",
        "the client is told so",
    ],
)
def test_a_sentence_that_has_to_be_turned_round_is_found(sentence: str) -> None:
    assert found_in(sentence, METAPHORS, INVERSIONS)


def test_a_class_has_the_word_of_the_field() -> None:
    assert {f"{module}:{name}" for module, name in classes() if name in RENAMED} == STILL


def test_no_two_modules_of_a_package_share_the_name_of_a_class() -> None:
    modules = defaultdict(set)
    for module, name in classes():
        modules[module.split("/")[0], name].add(module)
    assert {key: found for key, found in modules.items() if len(found) > 1} == {}


def _identifiers(name: str) -> Iterator[str]:
    for node in nodes(name):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_a_word_that_had_several_meanings_is_replaced() -> None:
    found = {
        f"{name}: {word}"
        for name in product()
        if not name.startswith("reconcile/")
        for word in _identifiers(name)
        if REPLACED.search(word)
    }
    assert found == set()


@pytest.mark.parametrize(("word", "scope"), SCOPED.items())
def test_a_word_stays_in_its_modules(word: str, scope: tuple[str, ...]) -> None:
    using = {name for name in product() if any(word in one.lower().split("_") for one in _identifiers(name))}
    assert using
    assert {name for name in using if not name.startswith(scope)} == set()


def test_the_glossary_names_each_term_once_and_modules_that_there_are() -> None:
    rows = re.findall(r"^\| (.+?) \| .+? \| (.*?) ?\|$", GLOSSARY.read_text(), re.MULTILINE)
    terms = [term.strip() for first, _ in rows if first != "term" for term in first.split(",")]
    assert len(terms) > 40
    assert sorted(terms) == sorted(set(terms))
    named = [path for _, modules in rows for path in re.findall(r"`([\w/.]+)`", modules)]
    assert [path for path in named if not (ROOT / path).exists()] == []
