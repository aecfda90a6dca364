"""The tables against Kafka's own message definitions, and against a second codec made from them."""

import re
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas import load_json

from kafkawire.protocol.apis import APIS, NEVER, is_flexible
from kafkawire.protocol.errors import Malformed, UnsupportedVersion, WireError
from kafkawire.protocol.message import Message, body_codec, decode, encode
from kafkawire.protocol.messages.cluster import ApiVersionsResponse
from kafkawire.protocol.primitives import Reader
from kafkawire.protocol.schema import Spec, Struct, Versions, columns
from tests.tiers import examples
from tests.unit.mq.kafka.tables import definition, tables, values, versions

pytestmark = pytest.mark.slow

QUICK = settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck), database=None)

every_table = pytest.mark.parametrize("cls", tables(), ids=lambda cls: cls.__name__)


def snake(name: str) -> str:
    name = name.replace("V3AndBelow", "")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def parsed(versions: str) -> Versions:
    return Versions.parse("" if versions == "none" else versions)


def theirs(fields: list[dict[str, Any]], version: int) -> list[Any]:
    """Kafka's fields of a version: name, type, array?, may be null?, tag, fields of its own."""
    rows = []
    for field in fields:
        if version not in parsed(field["versions"]):
            continue
        kind = field["type"].removeprefix("[]")
        below = theirs(field["fields"], version) if "fields" in field else kind
        null = version in parsed(field.get("nullableVersions", "none"))
        tagged = version in parsed(field.get("taggedVersions", "none"))
        rows.append((snake(field["name"]), below, field["type"] != kind, null, field["tag"] if tagged else None))
    return rows


def ours(cls: type[Struct], version: int) -> list[Any]:
    return [
        (name, spec.kind if isinstance(spec.kind, str) else ours(spec.kind, version), spec.is_array,
         version in spec.null, spec.tag)
        for name, spec in columns(cls)
        if version in spec.versions
    ]  # fmt: skip


@every_table
def test_a_table_has_the_fields_that_kafka_defines(cls: type[Message]) -> None:
    fields = definition(cls)["fields"]
    for version in versions(cls):
        assert ours(cls, version) == theirs(fields, version), version


@every_table
def test_a_table_belongs_to_the_api_and_the_flexible_versions_that_kafka_defines(cls: type[Message]) -> None:
    defined = definition(cls)
    flexible = parsed(defined["flexibleVersions"])
    assert APIS[cls.api].key == defined["apiKey"]
    assert cls.__name__ == defined["name"]
    assert [is_flexible(cls.api, version) for version in versions(cls)] == [v in flexible for v in versions(cls)]
    assert APIS[cls.api].newest <= parsed(defined["validVersions"]).last


@every_table
def test_a_field_that_a_version_lacks_has_the_default_that_kafka_defines(cls: type[Message]) -> None:
    def check(cls: type[Struct], fields: list[dict[str, Any]]) -> None:
        defaults = {snake(field["name"]): field for field in fields}
        made = cls()
        for name, spec in columns(cls):
            field = defaults[name]
            if not isinstance(spec.kind, str):
                check(spec.kind, field["fields"])
            elif spec.tag is not None or spec.versions.first > 0:
                assert getattr(made, name) == default_of(field, spec), name

    check(cls, definition(cls)["fields"])


def default_of(field: dict[str, Any], spec: Spec) -> Any:
    if spec.is_array:
        return None if field.get("default") == "null" else []
    assert isinstance(spec.kind, str), "a struct has no default"
    text = str(field.get("default", "")).lower()
    if spec.kind.startswith("int"):
        return int(text or "0", 0)
    return {"bool": text == "true", "uuid": bytes(16), "bytes": b"", "string": None if text == "null" else ""}[
        spec.kind
    ]


def second_codec(cls: type[Message]) -> Any:
    for room in ("producer", "consumer", "metadata", "admin", "sasl"):
        module = import_module(f"kafka.protocol.{room}")
        if hasattr(module, cls.__name__):
            return getattr(module, cls.__name__)
    raise AssertionError(f"no {cls.__name__}")


@every_table
def test_what_is_written_is_read_back_and_skipping_ends_where_reading_does(cls: type[Message]) -> None:
    @QUICK
    @given(values(cls))
    def check(drawn: tuple[Message, int]) -> None:
        message, version = drawn
        body = b"".join(encode(message, version))
        assert decode(cls, version, body) == message
        assert b"".join(encode(decode(cls, version, body), version)) == body
        reader = Reader(body + b"behind")
        body_codec(cls, version).skip(reader)
        assert reader.at == len(body)

    check()


@every_table
def test_another_codec_understands_what_is_written_and_writes_the_same(cls: type[Message]) -> None:
    other = second_codec(cls)

    @QUICK
    @given(values(cls, tags_max=0))
    def check(drawn: tuple[Message, int]) -> None:
        message, version = drawn
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # that codec reads any error in version 0
        body = b"".join(encode(message, version))
        flexible = is_flexible(cls.api, version)
        theirs = other.decode(body, version=version)
        assert other._struct.encode(theirs, version=version, compact=flexible, tagged=flexible) == body

    check()


@every_table
def test_arbitrary_cut_and_damaged_bytes_are_read_or_refused_and_nothing_else(cls: type[Message]) -> None:
    @QUICK
    @given(values(cls), st.integers(0, 1 << 16), st.integers(0, 255), st.binary(max_size=64))
    def check(drawn: tuple[Message, int], at: int, byte: int, noise: bytes) -> None:
        message, version = drawn
        body = bytearray(b"".join(encode(message, version)))
        cut = bytes(body[: at % (len(body) + 1)])
        if body:
            body[at % len(body)] = byte
        for damaged in (bytes(body), cut, noise):
            with suppress(WireError):
                decode(cls, version, damaged)
            with suppress(WireError):
                body_codec(cls, version).skip(Reader(damaged))

    check()


@every_table
def test_a_version_outside_those_let_through_is_refused(cls: type[Message]) -> None:
    for version in (versions(cls)[0] - 1, versions(cls)[-1] + 1):
        with pytest.raises(UnsupportedVersion):
            encode(cls(), version)


@every_table
def test_bytes_behind_the_end_are_refused(cls: type[Message]) -> None:
    for version in versions(cls):
        body = b"".join(encode(cls(), version))
        with pytest.raises(Malformed):
            decode(cls, version, body + b"\x00")


def test_every_api_that_is_let_through_is_flexible_from_the_version_in_kafka() -> None:
    checked = 0
    for api in APIS.values():
        try:
            defined = load_json(f"{api.name}Request", "kafka.protocol.schemas.resources")
        except FileNotFoundError:
            continue
        flexible = parsed(defined["flexibleVersions"])
        assert api.key == defined["apiKey"]
        assert api.flexible == (flexible.first if flexible.last >= 0 else NEVER), api
        assert api.newest <= parsed(defined["validVersions"]).last
        checked += 1
    assert checked > 40
