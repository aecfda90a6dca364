"""Principal, act, topic on the command line: what talks to a server is allowed by one act, on one topic."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from delayline.access.acts import Act
from tests.acceptance.asking import Ran, run
from tests.acceptance.keyed import ROOT, KeyedServer
from tests.unit.api.access.held import allowing

COMMANDS = {
    "send {topic} v --delay 1h": "send",
    "get {id}": "read",
    "get --topic {topic} --own-id none": "read",
    "list --topic {topic}": "read",
    "histogram {topic}": "read",
    "topics {topic}": "read",
    "tail {topic} --no-follow": "payload",
    "dead list {topic}": "payload",
    "cancel --topic {topic} --dry-run": "cancel",
    "cancel --topic {topic} --own-id none": "cancel",
    "cancel {id}": "cancel",
    "reschedule {id} --delay 2h": "reschedule",
    "deliver {id}": "reschedule",
    "pause {topic}": "control",
    "resume {topic}": "control",
    "purge {topic} --yes": "control",
    "dead redrive {topic} --all": "control",
    "shard inspect {topic} 0": "control",
    "shard skip {topic} 0 --offset 0 --to-dead --yes": "control",
    "topics create {topic}": "topics",
    "topics delete {topic} --force --yes": "topics",
}
"""By command, the act of docs/security.md. They are carried out in this order: the last ones leave least."""

OF_PRINCIPALS = ("preview --every 1h", "status", "topics", "list", "shard list")
"""They show what the principal may see, or what is about no topic."""

ACTS = sorted(set(COMMANDS.values()))
RULES = "".join(
    allowing(f"only-{act}", act, topics="orders")
    + allowing(f"but-{act}", *(other for other in Act if other != act), topics="orders")
    + allowing(f"other-{act}", act, topics="orders-2")
    for act in ACTS
)
REFUSED = "has no right to"
NOT_SHOWN = (
    "key, value and headers are not shown: No rule allows it: only-read has no right to `payload` of topic 'orders'\n"
)
"""Beside what may be seen of a message."""


class Keyed:
    """A server with a message that waits."""

    def __init__(self, folder: Path) -> None:
        principals = [f"{kind}-{act}" for act in ACTS for kind in ("only", "but", "other")]
        self.server = KeyedServer(folder, principals, RULES)
        self.server.start()
        self.server.wait_ready()
        sent = run("send", "orders", "v", "--delay", "1h", "--json", url=self.server.url, key=self.server.key[ROOT])
        self.message_id = json.loads(sent.out)["message_id"]

    def run(self, principal: str, command: str) -> Ran:
        words = command.format(topic="orders", id=self.message_id).split()
        return run(*words, url=self.server.url, key=self.server.key[principal])


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    keyed = Keyed(tmp_path_factory.mktemp("keyed"))
    yield keyed
    keyed.server.kill()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_allowed_by_its_act_alone_and_for_its_topic_alone(keyed: Keyed, command: str) -> None:
    act = COMMANDS[command]
    for who in (f"but-{act}", f"other-{act}"):
        refused = keyed.run(who, command)
        assert (refused.code, REFUSED in refused.err) == (1, True), (who, refused)
        assert f"`{act}` of topic 'orders'" in refused.err
    allowed = keyed.run(f"only-{act}", command)
    assert REFUSED not in allowed.err.replace(NOT_SHOWN, ""), allowed


@pytest.mark.parametrize("command", OF_PRINCIPALS)
def test_what_is_about_no_topic_is_for_every_principal_and_shows_no_other_topic(keyed: Keyed, command: str) -> None:
    for who in ("other-read", "only-send"):
        ran = keyed.run(who, command)
        assert ran.code == 0, ran
        assert "orders." not in ran.out
    assert run(*command.split(), url=keyed.server.url).code == 1
