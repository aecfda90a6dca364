"""Style that the linter does not see, as checks."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("delayline", "kafkawire", "cli", "mq", "store", "delay_service", "api", "proxy", "reconcile", "rocketmq")

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: what belongs to it is unknown")

FILE_LINES_MAX = 400
"""Without comments: none must be left out to stay below a bound."""
LONGER = {"proxy/kafka/produce/sequencer/gate.py": 455}
"""The sequencer's state machine, in the order in which an event passes it: its rules refer to each other's states."""
FUNCTION_LINES_P95_MAX = 35
WHY_MIN = {"delay_service/core/": 5.5, "kafkawire/": 3.0, "store/": 3.5}
"""Lines of comments per 100 lines: what breaks without a line, and its source. It only ever becomes more."""
FOR_TOOLS = re.compile(r"#\s*(type:|noqa|pragma|fmt:|---)")

CLOCK_MODULES = ("delayline/clock.py", "rocketmq/clock.py")
"""The second is of a package that imports nothing of ours."""
CLOCKS = re.compile(r"^time\.(time|monotonic|perf_counter)(_ns)?$|\b(datetime|date)\.(now|utcnow|today)$")
RULE = re.compile(r"\s*# rule ([A-Za-z][A-Za-z0-9-]*):(.*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"docs/[\w./-]+\.md")
MACHINE = re.compile(
    r"/home/\w|/Users/\w|(?<![\w.}])/(?:root|work)/"  # a folder of somebody's machine
    r"|index-url[ =]+\S+:"  # a package index of somebody's
    r"|\b(?:pypi|pythonhosted|npmjs|maven|debian|docker|quay)\.(?:org|com|io)\b"  # or a public one
    r"|\brepo\d?\.[\w.]+\.\w"
)

OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
"""Public, although they begin with an underscore: `typing.NamedTuple`."""
PRIVATE_USE = re.compile(r"(?<!\bself)(?<!\bcls)(?<!\bos)(?<!\bsuper\(\))\._[a-z]")
"""Where a file has none, it need not be parsed."""
PRIVATE_USES_MAX = 35
"""How often tests may reach for what is private to others. It only goes down."""


@cache
def tracked() -> tuple[str, ...]:
    """What is under version control and on disk, so that a new file counts once it is added."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(name for name in listed.stdout.split("\0") if (ROOT / name).is_file())


def product() -> list[str]:
    return [name for name in tracked() if name.endswith(".py") and name.split("/")[0] in PACKAGES]


def pages() -> list[str]:
    return [name for name in tracked() if name.endswith(".md")]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(), name)


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All of a module: to walk through a tree anew takes longer than what most checks do."""
    return tuple(ast.walk(tree(name)))


def clocks_read_in(name: str) -> Iterator[int]:
    """Lines that read a clock (`time.time`), import a function that does, or give the module another name."""
    for node in nodes(name):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Attribute | ast.Name) and CLOCKS.search(f"{_last(node.value)}.{node.attr}"):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom):
            if any(CLOCKS.search(f"{node.module}.{alias.name}") for alias in node.names):
                yield node.lineno
        elif isinstance(node, ast.Import) and any(alias.name == "time" and alias.asname for alias in node.names):
            yield node.lineno


def _last(node: ast.Attribute | ast.Name) -> str:
    """The last name of an expression, behind a dot where others stand before it."""
    return node.id if isinstance(node, ast.Name) else f".{node.attr}"


def prints_in(name: str) -> Iterator[int]:
    for node in nodes(name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno


def function_lines() -> list[int]:
    """Lines of every function, without its docstring."""
    lengths = []
    for name in product():
        for node in nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append(_lines(node))
    return lengths


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def test_only_the_clock_reads_the_clock() -> None:
    found = [f"{name}:{line}" for name in product() if name not in CLOCK_MODULES for line in clocks_read_in(name)]
    assert found == []


def test_nothing_prints_but_the_command_line() -> None:
    found = [f"{name}:{line}" for name in product() if not name.startswith("cli/") for line in prints_in(name)]
    assert found == []


def test_every_module_has_a_docstring() -> None:
    assert [name for name in product() if (ROOT / name).read_text() and not ast.get_docstring(tree(name))] == []


def test_every_file_fits_a_head() -> None:
    lines = {name: _counted((ROOT / name).read_text()) for name in product()}
    assert {name: count for name, count in lines.items() if count > LONGER.get(name, FILE_LINES_MAX)} == {}
    assert [name for name in LONGER if lines[name] <= FILE_LINES_MAX] == [], "no exception that is not needed"


def _counted(source: str) -> int:
    return sum(not line.lstrip().startswith("#") for line in source.splitlines())


def test_modules_that_can_lose_a_message_have_why_comments() -> None:
    shares = {}
    for place in WHY_MIN:
        sources = [(ROOT / name).read_text() for name in product() if name.startswith(place) and not _is_table(name)]
        comments = sum(sum(1 for _ in _comments(source)) for source in sources)
        shares[place] = 100 * comments / sum(len(source.splitlines()) for source in sources)
    assert {place: share for place, share in shares.items() if share < WHY_MIN[place]} == {}


def _is_table(name: str) -> bool:
    """Whether the module is nothing but the protocol's tables."""
    return name.startswith("kafkawire/protocol/messages/")


def _comments(source: str) -> Iterator[str]:
    """Those for readers, not for tools, and no headings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not FOR_TOOLS.match(token.string):
            yield token.string


def test_nineteen_functions_in_twenty_are_short() -> None:
    lengths = sorted(function_lines())
    assert lengths[len(lengths) * 95 // 100] < FUNCTION_LINES_P95_MAX


def test_each_module_that_may_lose_a_message_has_a_test_file_of_its_own() -> None:
    modules = [Path(name).stem for name in product() if name.startswith("delay_service/core/")]
    tests = {Path(name).name for name in tracked() if name.startswith("tests/unit/delay_service/core/")}
    assert [name for name in modules if name != "__init__" and f"test_{name}.py" not in tests] == []


def forwarders_in(module: ast.Module) -> Iterator[str]:
    """Private functions that do nothing but hand all their arguments on, in the same order. Public ones may be what a
    protocol asks for."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_[a-z]", node.name):
            given = ", ".join(arg.arg for arg in node.args.args if arg.arg != "self")
            body = node.body[ast.get_docstring(node) is not None :]
            call = ast.unparse(body[0]) if given and len(body) == 1 and not node.decorator_list else ""
            if re.fullmatch(rf"(return )?(await )?[\w.]+\({given}\)", call):
                yield node.name


def test_no_private_function_only_forwards() -> None:
    assert [f"{name}: {found}" for name in product() for found in forwarders_in(tree(name))] == []


def test_a_function_that_only_forwards_is_found() -> None:
    source = "class A:\n    async def _a(self, b, c):\n        return await self._other.a(b, c)\n"
    assert list(forwarders_in(ast.parse(source))) == ["_a"]
    assert list(forwarders_in(ast.parse(source.replace("(b, c)\n", "(c, b)\n")))) == []


def private_uses_in(module: ast.Module) -> Iterator[int]:
    """Lines that use a private attribute of another object than `self`. Of libraries in C, constants in capitals have
    an underscore, too."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or not re.match(r"_[a-z]", node.attr) or node.attr in OF_TUPLES:
            continue
        if ast.unparse(node.value) not in ("self", "cls", "super()", "os"):
            yield node.lineno


def test_tests_reach_for_less_and_less_that_is_private() -> None:
    names = [name for name in tracked() if name.startswith("tests/") and name.endswith(".py")]
    some = [name for name in names if PRIVATE_USE.search((ROOT / name).read_text())]
    found = [f"{name}:{line}" for name in some for line in private_uses_in(tree(name))]
    assert len(found) <= PRIVATE_USES_MAX, found


def test_links_between_pages_lead_somewhere() -> None:
    broken = [f"{name}: {target}" for name in pages() for target in _targets(name) if not _exists(name, target)]
    assert broken == []


def _targets(name: str) -> list[str]:
    links = LINK.findall((ROOT / name).read_text())
    return [link for link in links if not re.match(r"[a-z][a-z0-9+.-]*:", link)]


def _exists(name: str, target: str) -> bool:
    path, _, anchor = unquote(target).partition("#")
    file = (ROOT / name).parent / path if path else ROOT / name
    return file.exists() and (not anchor or anchor in _anchors(file))


def _anchors(page: Path) -> set[str]:
    """Headings as the usual renderers name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_that_are_named_exist() -> None:
    named = {(name, page) for name in tracked() if _is_text(name) for page in PAGE.findall((ROOT / name).read_text())}
    assert sorted((name, page) for name, page in named if not (ROOT / page).is_file()) == []


def test_every_page_is_led_to_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        if (page := waiting.pop()) not in seen:
            seen.add(page)
            waiting += _linked_pages(page)
    assert [name for name in pages() if ROOT / name not in seen] == []


def _linked_pages(page: Path) -> Iterator[Path]:
    """Those in a folder that is linked count as linked."""
    for target in _targets(str(page.relative_to(ROOT))):
        place = (page.parent / target.partition("#")[0]).resolve()
        yield from place.glob("*.md") if place.is_dir() else [place] if place.suffix == ".md" else []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name in tracked()
        if _is_text(name) and name != "tests/test_tidy.py"
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert found == []


def _is_text(name: str) -> bool:
    return (ROOT / name).suffix in {".py", ".md", ".toml", ".txt", ".sh", ".yml", ".yaml", ".xml", ""}
