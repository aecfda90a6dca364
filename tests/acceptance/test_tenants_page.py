"""docs/tenants.md, typed in: TLS, SASL and three tenants, on a broker that starts with none of it."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.acceptance.asking import DELAYLINE, wait_for
from tests.brokers.certificates import make_certificate
from tests.conftest import started
from tests.fault.server import ROOT, environment
from tests.ports import free_port, free_range

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka

pytestmark = pytest.mark.thorough

PAGE = ROOT / "docs" / "tenants.md"
SERVE = "delayline serve"
WITHIN_S = 240.0
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


class Broker(NamedTuple):
    """A Kafka with a SASL_SSL listener, an authorizer, and user admin."""

    kafka: "Kafka"
    authority: Path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    from tests.brokers.kafka import Kafka

    folder = tmp_path_factory.mktemp("broker")
    make_certificate(folder, "broker", "127.0.0.1")
    listener = "listener.name.sasl"
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(folder / "broker.pem"),
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with started(lambda: Kafka(properties=properties)) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for future in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("admin", known, b"of-admin")]
        ).values():
            future.result(60)
        yield Broker(kafka, folder / "broker.crt")


def prepared(folder: Path, broker: Broker) -> Mapping[str, str]:
    """What the page takes for granted: files in the folder, and the variables of a shell."""
    from tests.brokers.kafka import java

    bin = folder / "bin"
    bin.mkdir()
    for name, class_name in TOOLS.items():
        words = " ".join(f"'{word}'" for word in java(broker.kafka._lib, ["-Dkafka.logs.dir=."]))
        (bin / name).write_text(f'#!/bin/sh\nexec {words} {class_name} "$@"\n')
        (bin / name).chmod(0o755)
    authority = broker.authority.read_text()
    (folder / "kafka-ca.crt").write_text(authority)
    (folder / "admin.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} username="admin" password="of-admin";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'kafka-ca.crt'}\n"
    )
    return environment(
        PATH=f"{bin}:{DELAYLINE.parent}:/usr/lib/jvm/bin:/usr/local/bin:/usr/bin:/bin",
        KAFKA=broker.kafka.sasl_servers,
        HERE="localhost",
    )


def blocks(ports: Mapping[str, int]) -> list[str]:
    """The page's shell commands, but for the first ones, which name the reader's machines."""
    text = PAGE.read_text()
    for known, free in ports.items():
        text = text.replace(known, str(free))
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[1:]


def typed(block: str, folder: Path, variables: Mapping[str, str]) -> str:
    """What came out, errors too."""
    ended = subprocess.run(
        ["bash", "-e"],
        cwd=folder,
        env=variables,
        input=block,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.returncode == 0, f"{block}\n{ended.stdout[-3000:]}"
    return ended.stdout


def test_three_tenants_share_an_installation_as_the_page_shows(broker: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "three tenants"
    folder.mkdir()
    variables = dict(prepared(folder, broker))
    ports = {"8443": free_port(), "19092": free_range(20)}
    steps = blocks(ports)
    (start,) = (number for number, step in enumerate(steps) if SERVE in step)
    for step in steps[:start]:
        typed(step, folder, variables)
    assert "fail" not in typed(steps[start].replace(SERVE, ""), folder, variables)
    with (folder / "serve.log").open("wb") as log:
        serving = subprocess.Popen([DELAYLINE, "serve"], cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        wait_for(lambda: (folder / "serve.log").read_text(), lambda text: "listens on" in text)
        variables |= {"DELAYLINE_URL": f"https://localhost:{ports['8443']}", "SSL_CERT_FILE": "server.crt"}
        outputs = [typed(step, folder, variables) for step in steps[start + 1 :]]
    finally:
        serving.terminate()
        serving.wait(60)
    over_https, over_kafka, received, operator = outputs
    assert over_https.count("refused") == 2
    assert "has no right to `send` of topic 'green.orders'" in over_https
    assert "TopicAuthorizationException" in over_kafka
    assert {"over-https", "over-kafka"} <= set(received.splitlines())
    assert "stolen" not in received
    assert "red.orders" in operator
    assert "refused" in operator
    assert "over-" not in operator
    assert "purgeTopic" in operator
    acts = (folder / "acts.jsonl").read_text()
    assert '"principal":"ops/ann","operation":"purgeTopic"' in acts
