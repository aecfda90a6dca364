"""A ledger of which a file was cut, emptied, deleted, or comes from another program: a sentence that names the file,
or no harm at all. What Spark reads is in tests/reconcile/test_rows.py."""

import msgspec
import pytest
from msgspec.structs import replace

from reconcile.directory.files import MemoryFiles
from reconcile.directory.runs import last_manifest
from reconcile.errors import BadInput, RunInProgress
from reconcile.logic.manifest import Manifest, decode, encode
from reconcile.logic.plan import FORMAT_VERSION
from tests.unit.reconcile.directory.test_runs import Fuse, Killed, Traffic, day, plan_of, run, untroubled

PUT_BACK = ": put it back, or use another --output"
ANEW = ": remove it, and the run is planned anew"
DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "no text": lambda data: b'{"v": "\xff\xfe"}',
    "nested too deep": lambda data: b'{"x":' + b"[" * 100_000,
    "of another version": lambda data: data.replace(b'"v":%d' % FORMAT_VERSION, b'"v":9'),
    "of another kind": lambda data: b"[]",
}


def unfinished() -> tuple[MemoryFiles, Traffic]:
    """The second run was killed while it judged: its plan and its reads stand there."""
    files, traffic = MemoryFiles(), Traffic()
    for happen in day()[:2]:
        happen(traffic)
        if files.files:
            with pytest.raises(Killed):
                run(files, traffic.queue, Fuse(12))
        else:
            run(files, traffic.queue)
    assert files.exists("reads-2.json")
    assert not files.exists("manifest-2.json")
    return files, traffic


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("hint", [b"3", b"2", b"", b"?", b'"\xff"', b"[" * 100_000])
def test_a_damaged_manifest_is_named(how: str, hint: bytes) -> None:
    files, traffic, _ = untroubled()
    files.write("latest.json", hint)
    files.write("manifest-3.json", DAMAGES[how](files.files["manifest-3.json"]))
    before = dict(files.files)
    with pytest.raises(BadInput, match=r"^manifest-3\.json .*" + PUT_BACK) as refused:
        run(files, traffic.queue)
    assert "\n" not in str(refused.value)
    assert files.files == before


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("hint", [b"3", b"1"])
def test_a_manifest_that_was_deleted_is_missed(number: int, hint: bytes) -> None:
    files, _, manifests = untroubled()
    files.write("latest.json", hint)
    files.remove(f"manifest-{number}.json")
    if hint == b"3" and number < 3:
        assert last_manifest(files) == manifests[-1]  # whoever opens its rows misses it
        return
    if hint == b"1" and number > 1:
        assert last_manifest(files) == manifests[number - 2]  # as if the run had been killed before it
        return
    with pytest.raises(BadInput, match=rf"^manifest-{number}\.json is not there{PUT_BACK}"):
        last_manifest(files)


def test_a_manifest_of_another_run_is_refused() -> None:
    files, _, manifests = untroubled()
    files.write("manifest-3.json", encode(replace(manifests[1])))
    with pytest.raises(BadInput, match=rf"^manifest-3\.json is of run 2{PUT_BACK}"):
        last_manifest(files)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_hint_harms_nothing(how: str) -> None:
    files, traffic, manifests = untroubled()
    files.write("latest.json", DAMAGES[how](b"30"))
    if how in ("of another version",):
        files.write("latest.json", b"3.5")
    assert run(files, traffic.queue) == replace(manifests[-1], run=4)
    assert files.read("latest.json") == b"4"


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", ["plan-2.json", "reads-2.json"])
def test_a_damaged_plan_is_named_and_made_again_where_it_is_removed(name: str, how: str) -> None:
    files, traffic = unfinished()
    _, _, expected = untroubled()
    files.write(name, DAMAGES[how](files.files[name]))
    if how != "emptied":  # as good as removed
        with pytest.raises(BadInput, match=rf"^{name} .*{ANEW}") as refused:
            run(files, traffic.queue)
        assert "\n" not in str(refused.value)
        files.remove(name)
    assert run(files, traffic.queue) == expected[1]


def test_what_was_to_be_read_by_another_plan_is_not_read_by_a_new_one() -> None:
    files, traffic = unfinished()
    files.remove("plan-2.json")
    traffic.send(0, -1)
    traffic.pass_on(60_000)
    after = run(files, traffic.queue).topics["orders"]
    sent = sum(map(len, traffic.queue.buffers["orders"].values()))
    assert (after.totals.accepted, after.shards[0].position) == (sent, len(traffic.queue.buffers["orders"][0]))


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_lock_is_somebodys(how: str) -> None:
    files, traffic, _ = untroubled()
    files.write("lock", DAMAGES[how](b'{"host":"h","pid":1,"born":0,"since_ms":0}'))
    if how == "of another version":
        files.write("lock", b'{"host":"h"}')
    with pytest.raises(RunInProgress, match=r"memory:/lock is gone or cannot be read"):
        run(files, traffic.queue)


@pytest.mark.parametrize("how", ["cut", "no text", "of another kind"])
def test_a_damaged_repair_plan_ends_the_run_before_it_counts(how: str) -> None:
    """It lists what the queue keeps for a repair."""
    files, traffic, _ = untroubled()
    name = "runs/2/repair-plan.json"
    files.write(name, DAMAGES[how](msgspec.json.encode(plan_of(2, traffic.queue.at_ms, 1))))
    with pytest.raises(BadInput, match=rf"^{name} cannot be read: .*; remove it|^{name} .*remove it"):
        run(files, traffic.queue)
    assert not files.exists("manifest-4.json")
    files.remove(name)
    assert run(files, traffic.queue).run == 4


def test_a_manifest_of_a_program_that_counted_nothing_is_refused() -> None:
    _, _, manifests = untroubled()
    data = encode(manifests[-1]).replace(b'"v":%d' % FORMAT_VERSION, b'"v":1')
    with pytest.raises(BadInput, match=f"has version 1, this program knows {FORMAT_VERSION}"):
        decode(data, Manifest, "manifest-3.json")
