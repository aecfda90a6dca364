"""The console's files: how they are served, and what must not stand in them."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from api.app import create_worker_app
from tests.test_tidy import FILE_LINES_MAX
from tests.unit.api.in_memory import Api, problem

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "api" / "console"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
NAMES = [str(path.relative_to(FOLDER)) for path in FILES]
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
MARKUP_SINKS = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser")


def test_the_page_stands_at_the_root() -> None:
    answer = Api().get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.content == (FOLDER / "index.html").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_with_its_type_and_its_guards(name: str) -> None:
    answer = Api().get(f"/console/{name}")
    assert answer.status_code == 200
    assert answer.content == (FOLDER / name).read_bytes()
    assert answer.headers["content-type"].partition(";")[0] == TYPES[Path(name).suffix]
    assert answer.headers["content-security-policy"].startswith("default-src 'self'; ")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    api = Api()
    etag = api.get("/console/app.js").headers["etag"]
    assert etag != api.get("/console/dom.js").headers["etag"]
    for given in (etag, f'"other", W/{etag}', "*"):
        answer = api.get("/console/app.js", headers={"if-none-match": given})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        assert "content-length" not in answer.headers
    assert api.get("/console/app.js", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/console/none.js", "/console/../app.py", "/console/%2e%2e/app.py", "/console/", "/console"]
)
def test_nothing_but_the_console_is_served(path: str) -> None:
    assert problem(Api().get(path)) == (404, "not-found")


def test_a_worker_alone_has_no_console() -> None:
    worker = create_worker_app("1.2.3", CollectorRegistry(), lambda: (True, ""))
    assert [route for route in worker.routes if getattr(route, "path", "") in ("/", "/console/{name:path}")] == []


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    page = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|https?:", page) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".js")])
def test_modules_make_no_markup_from_text_and_load_nothing_from_elsewhere(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert MARKUP_SINKS.findall(text) == []
    assert [url for url in re.findall(r"https?://[^\"\s]+", text) if url != "http://www.w3.org/2000/svg"] == []


def test_every_file_of_the_console_fits_a_head() -> None:
    lines = {name: len((FOLDER / name).read_text().splitlines()) for name in NAMES if not name.endswith(".css")}
    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}


@pytest.mark.slow
def test_an_installed_package_has_the_console_in_it(tmp_path: Path) -> None:
    build = (
        "import sys; sys.argv = ['setup.py', '-q', 'egg_info', '-e', sys.argv[1], 'build', '-b', sys.argv[1], "
        "'bdist_wheel', '-d', sys.argv[1]]; import setuptools; setuptools.setup()"
    )
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=60
    )
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {f"api/console/{name}" for name in NAMES} <= packed
    assert "kafkawire/protocol/messages/__init__.py" in packed
