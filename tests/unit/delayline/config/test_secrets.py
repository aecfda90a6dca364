"""No secret of the settings is shown by an error, a description or an object made of them.

The secrets are found in the models (`tests/secrets.py`): a new one is looked for as soon as it is there."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.main import app
from cli.queues import open_queue
from delayline.clock import SystemClock
from delayline.config import Settings, describe, load_settings
from delayline.errors import ConfigError
from delayline.process.watched import Watcher
from tests.secrets import Marked, marker, neighbours, secret_settings

PACKAGES = ("api", "cli", "delay_service", "delayline", "kafkawire", "mq", "proxy", "reconcile", "rocketmq", "store")
OURS = tuple(f"{name}." for name in PACKAGES)
"""Beginnings of the names of modules."""

EMBEDDED: Mapping[str, Any] = {
    "api.auth": "keys",
    "access.rules": "rules.toml",
    "access.keys": "keys.json",
    "access.oidc.issuer": "http://127.0.0.1:1",
    "access.oidc.audience": "api",
    "access.oidc.client_id": "console",
    "access.oidc.redirect_url": "http://127.0.0.1:1/v1/session/callback",
}
KAFKA: Mapping[str, Any] = {
    **EMBEDDED,
    "mq.kind": "kafka",
    "mq.bootstrap_servers": "127.0.0.1:1",
    "mq.topics_create": False,
}
ROCKETMQ: Mapping[str, Any] = {**KAFKA, "mq.kind": "rocketmq"}
ALONE: Mapping[str, str] = {
    "mq.properties": "kafka",
    "internal.secret": "kafka",
    "proxy.rocketmq.account": "rocketmq",
}
"""Secrets that not every queue takes, and one that does."""


def marked(kind: str) -> Marked:
    """Every secret that settings of this kind of queue may have."""
    given = {"embedded": EMBEDDED, "kafka": KAFKA, "rocketmq": ROCKETMQ}[kind]
    marks = Marked(given, [path for path in secret_settings() if ALONE.get(".".join(path), kind) == kind])
    if kind == "rocketmq":  # accounts of clients need Delayline's own
        marks.secrets.append(own := marker())
        marks.given["mq.properties"] = {"access_key": "own", "secret_key": own}
    return marks


def loaded(folder: Path, marks: Marked, **more: Any) -> Settings:
    return load_settings(marks.written(folder, **more), {}, {}, folder)


KINDS = pytest.mark.parametrize("kind", ["embedded", "kafka", "rocketmq"])


def test_the_models_are_searched_for_secrets() -> None:
    found = {".".join(path) for path in secret_settings()}
    assert {"mq.properties", "internal.secret", "proxy.rocketmq.account", "store.encryption_key"} <= found
    assert ALONE.keys() <= found
    assert all(len(marked(kind).secrets) >= 6 for kind in ("embedded", "kafka", "rocketmq"))


@KINDS
def test_settings_and_their_description_show_none(tmp_path: Path, kind: str) -> None:
    marks = marked(kind)
    settings = loaded(tmp_path, marks)
    for text in (repr(settings), str(settings), str(describe(settings)), settings.model_dump_json()):
        assert marks.shown_in(text) == []
    assert marks.secrets[0] in settings.store.encryption_keys or kind != "embedded"


@KINDS
def test_errors_about_its_neighbours_show_none(tmp_path: Path, kind: str) -> None:
    marks = marked(kind)
    tried = 0
    for path in secret_settings():
        for other in [".".join(one) for one in neighbours(path)] + [".".join((*path[:-1], "unknown"))]:
            for wrong in ([["wrong"]], -1, {"wrong": "wrong"}):
                if other in marks.given:
                    continue
                with pytest.raises(ConfigError) as refused:
                    loaded(tmp_path, marks, **{other: wrong})
                tried += 1
                assert marks.shown_in(f"{refused.value!r} {refused.value} {refused.value.__cause__!r}") == []
    assert tried > 30


@KINDS
def test_errors_about_itself_show_none(tmp_path: Path, kind: str) -> None:
    marks = marked(kind)
    hidden = marks.secrets[0]
    command = {"command": ["/nowhere/tool", hidden]}
    for path in secret_settings():
        for wrong in ([hidden], {"text": hidden}, command, [[hidden]], {"a": [hidden]}):
            if path == ("mq", "properties") and isinstance(wrong, dict):
                continue  # a property of this name
            with pytest.raises(ConfigError) as refused:
                loaded(tmp_path, marks, **{".".join(path): wrong})
            assert marks.shown_in(f"{refused.value!r} {refused.value.__cause__!r}") == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"file": "empty"}, "the file empty is empty"),
        ({"command": ["true"]}, "the command true gives no secret: it prints nothing"),
    ],
)
@KINDS
def test_none_is_taken_from_what_gives_nothing(
    tmp_path: Path, kind: str, source: Mapping[str, Any], why: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    marks = marked(kind)
    tried = [path for path in secret_settings() if ALONE.get(".".join(path), kind) == kind]
    for path in tried:
        setting = ".".join(path)
        with pytest.raises(ConfigError) as refused:
            loaded(tmp_path, marks, **{setting: _from(source, marks.given[setting], marks.secrets)})
        assert str(refused.value).startswith(setting)
        assert why in str(refused.value)
    assert len(tried) > 5


def _from(source: Mapping[str, Any], value: Any, secrets: list[str]) -> Any:
    """The value of a setting, whose secrets come from `source`."""
    if isinstance(value, dict):
        return {name: _from(source, one, secrets) for name, one in value.items()}
    if isinstance(value, list):
        return [_from(source, one, secrets) for one in value]
    return source if value in secrets else value


@pytest.mark.parametrize("setting", ["store.encryption_key", "store.encryption_key_before"])
def test_an_encryption_key_that_is_written_down_is_not_empty(tmp_path: Path, setting: str) -> None:
    variable = "DELAYLINE_" + setting.replace(".", "__").upper()
    (file := tmp_path / "empty.toml").write_text(f'{setting} = ""\n')
    given: list[tuple[Path | None, dict[str, str]]] = [(file, {}), (None, {variable: ""})]
    for path, environ in given:
        with pytest.raises(ConfigError, match=r"expected 32 bytes in base64 .* leave it out") as refused:
            load_settings(path, {}, environ, tmp_path)
        assert str(refused.value).startswith(f"{setting}: ")
    assert load_settings(None, {}, {}, tmp_path).store.encryption_keys == ("", "")


@contextmanager
def built(folder: Path, kind: str, settings: Settings) -> Iterator[object]:
    """The objects of a process with these settings."""
    if kind != "embedded":
        queue = open_queue(settings, SystemClock(), "127.0.0.1:1")
        yield queue
        queue.close()
        return
    from cli.assembly import everything

    (folder / "rules.toml").write_text('[[rule]]\nprincipals = ["*"]\ntopics = ["*"]\nacts = ["read"]\n')
    (folder / "keys.json").write_text("[]")
    with everything(settings, SystemClock(), Watcher()) as process:
        yield process


@KINDS
def test_no_object_made_of_them_shows_one(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marks = marked(kind)
    settings = loaded(tmp_path, marks, data_dir=str(tmp_path / "data"))
    with built(tmp_path, kind, settings):
        ours = [one for one in gc.get_objects() if _is_ours(type(one))]
        assert len(ours) > 50
        showing = {f"{type(one).__module__}.{type(one).__qualname__}" for one in ours if marks.shown_in(_shown(one))}
    assert showing == set()


def _is_ours(kind: type) -> bool:
    """Whether it is an object of a class of ours."""
    return str(kind.__module__).startswith(OURS) and not issubclass(kind, type)


def _shown(one: object) -> str:
    return f"{one!r} {one}"


def options(command: Any) -> Iterator[str]:
    """Of all commands."""
    for option in command.params:
        yield from (name.lstrip("-") for name in option.opts)
    for child in getattr(command, "commands", {}).values():
        yield from options(child)


def test_no_option_takes_a_secret_but_for_addresses_which_need_none() -> None:
    secrets = {path[-1].replace("_", "-") for path in secret_settings()}
    assert secrets & set(options(get_command(app))) == {"push-metrics", "webhook"}


def test_a_traceback_of_the_command_line_shows_no_variables() -> None:
    assert app.pretty_exceptions_enable is False
