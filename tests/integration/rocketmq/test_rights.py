"""A broker with access control (ACL 2.0): the rights that docs/rocketmq.md lists are enough, and none is too many."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from mq.rocketmq import RocketmqQueue, RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.wire.acl import AclCredentials
from tests.acceptance.asking import run
from tests.brokers import rocketmq_accounts
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import BROKER, RocketMq
from tests.fault.rocketmq.judge import delivered_into
from tests.fault.server import Server, http_client
from tests.integration.rocketmq.waiting import CLOCK, soon

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def guarded() -> Iterator[RocketMq]:
    try:
        with rocketmq_accounts.guarded() as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


class Installation:
    """An account, a namespace and a target of its own."""

    def __init__(self, server: RocketMq) -> None:
        name = uuid4().hex[:8]
        self.server, self.namespace, self.topic = server, f"ns{name}", f"orders-{name}"
        self.account = AclCredentials(f"user{name}", "secret-of-a-user")
        with Client(server.settings) as client:
            client.admin.create_topic(self.topic, BROKER, 2)
        self.rights = rocketmq_accounts.rights_of_delayline(self.namespace, self.topic)
        rocketmq_accounts.create_account(server, self.account)

    def grant(self, rights: rocketmq_accounts.Rights) -> None:
        rocketmq_accounts.grant(self.server, self.account, rights)

    @property
    def settings(self) -> dict[str, str]:
        properties = {"access_key": self.account.access_key, "secret_key": self.account.secret_key}
        return {
            "mq__kind": "rocketmq",
            "mq__bootstrap_servers": self.server.settings.name_servers[0],
            "mq__properties": json.dumps(properties),
            "namespace": self.namespace,
            "delay__topics": self.topic,
        }

    def rights_missing(self) -> str | None:
        """What the doctor asks."""
        name_server = self.server.settings.name_servers[0]
        properties = {"access_key": self.account.access_key, "secret_key": self.account.secret_key}
        settings = RocketmqSettings(name_servers=name_server, namespace=self.namespace, properties=properties)
        with closing(RocketmqQueue(settings, CLOCK)) as queue:
            return queue.rights_missing(self.topic)


@pytest.fixture
def installation(guarded: RocketMq) -> Installation:
    return Installation(guarded)


def test_with_the_listed_rights_messages_are_delivered(installation: Installation, tmp_path: Path) -> None:
    installation.grant(installation.rights)
    doctor = run("doctor", **installation.settings)
    assert (doctor.code, "no permission" in doctor.out) == (0, False), doctor
    server = Server(tmp_path, "serve", **installation.settings)
    server.start()
    try:
        server.wait_ready()
        with http_client(20) as http:
            for number in range(4):
                message = {"value": f"m-{number}", "partition": number % 2, "schedule": {"delay": "1s"}}
                answer = http.post(f"{server.url}/v1/topics/{installation.topic}/messages", json=message)
                assert answer.status_code == 201, answer.text
        with Client(installation.server.settings) as client:
            soon(lambda: len(list(delivered_into(client, [BROKER], installation.topic))) == 4)
        assert installation.rights_missing() is None
    finally:
        server.kill()
        print(server.tail_of_log())


@pytest.mark.parametrize("right", ["pull", "Sub", "Get"])
def test_a_right_to_read_that_is_missing_is_named(installation: Installation, right: str) -> None:
    rights = dict(installation.rights)
    if right == "pull":
        rights["Group:CID_RMQ_SYS_client"] = []
    else:
        target = f"Topic:{installation.topic}"
        rights[target] = [one for one in rights[target] if one != right]
    installation.grant(rights)
    missing = installation.rights_missing()
    assert missing is not None
    assert "no permission" in missing.lower()
