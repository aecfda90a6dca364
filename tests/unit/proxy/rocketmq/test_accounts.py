"""Where brokers check accounts: whose delayed sends and recalls are taken, and as whom they go on."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from delayline.questions.inquiry import State
from rocketmq.wire.acl import AclCredentials, is_signed_by, signed
from rocketmq.wire.batch import encode_batch, member
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, Encoding
from tests.unit.proxy.rocketmq.scene import BUFFER, CLIENT, OTHER, OWN, Scene, message, send_of
from tests.unit.proxy.rocketmq.test_recalls import APPLIED, Owners, found, recall, record
from tests.unit.proxy.rocketmq.test_recalls import BUFFER as RECORD


@pytest.fixture
def guarded(scene: Scene) -> Scene:
    """Not open yet."""
    scene.guard()
    return scene


def by(account: AclCredentials, command: Command) -> Command:
    return replace(command, fields=signed(command.fields, command.body, account))


def forged(command: Command, **fields: str) -> Command:
    """Changed after it was signed."""
    return replace(command, fields={**command.fields, **fields})


def is_own(command: Command) -> bool:
    return command.fields["AccessKey"] == OWN.access_key and is_signed_by(
        command.fields, command.body, OWN.secret_key
    )


@pytest.mark.parametrize("encoding", Encoding)
def test_a_delayed_send_of_an_account_with_the_right_goes_on_as_delaylines(
    guarded: Scene, encoding: Encoding
) -> None:
    client = AclCredentials(CLIENT.access_key, CLIENT.secret_key, "token")
    sent = replace(by(client, message(DELAY="1")), encoding=encoding)
    assert guarded.open().client().ask(sent).code == 0
    (request,) = [one for one in guarded.broker.peer.seen if "b" in one.fields]
    assert request.fields["b"] == BUFFER
    assert is_own(request)
    assert "SecurityToken" not in request.fields


def test_both_requests_of_a_batch_and_a_half_message_go_on_as_delaylines(guarded: Scene) -> None:
    client = guarded.open().client()
    batch = send_of("orders", encode_batch([member(b"0", {"DELAY": "1"}), member(b"1", {"a": "b"})]), batch=True)
    half = message(DELAY="1", TRAN_MSG="true", PGROUP="p")
    for one in (batch, half):
        assert client.ask(by(CLIENT, one)).code == 0
    sends = [one for one in guarded.broker.peer.seen if "b" in one.fields]
    assert [one.fields["b"] for one in sends] == [BUFFER, "orders", BUFFER]
    assert all(map(is_own, sends))


def test_all_else_passes_with_the_clients_own_signature(guarded: Scene) -> None:
    client = guarded.open().client()
    passing = [by(CLIENT, message()), by(CLIENT, Command(Request.END_TRANSACTION, {"topic": "orders"}))]
    for one in passing:
        assert client.ask(one).code == 0
    assert [dict(one.fields) for one in guarded.broker.peer.seen] == [one.fields for one in passing]


DELAYED = message(DELAY="1")
REFUSED: Mapping[str, tuple[Command, str]] = {
    "no account": (DELAYED, "username cannot be null."),
    "a stranger": (
        by(AclCredentials("x", "client-secret"), DELAYED),
        "User:x is not found among the proxy's accounts.",
    ),
    "a wrong secret": (by(AclCredentials(CLIENT.access_key, "guess"), DELAYED), "check signature failed."),
    "no signature": (forged(DELAYED, AccessKey=CLIENT.access_key), "check signature failed."),
    "another topic": (by(OTHER, DELAYED), "User:mails-service has no permission to access Topic:orders, "),
    "a changed topic": (forged(by(OTHER, message("mails", DELAY="1")), b="orders"), "check signature failed."),
    "a changed delay": (forged(by(CLIENT, message()), i="DELAY\x011\x02"), "check signature failed."),
    "a changed body": (replace(by(CLIENT, DELAYED), body=b"y"), "check signature failed."),
    "a wrong delay": (message(DELAY="abc"), "username cannot be null."),
}


@pytest.mark.parametrize("who", REFUSED)
def test_who_may_not_send_to_the_topic_cannot_reach_it_by_a_delay(guarded: Scene, who: str) -> None:
    sent, why = REFUSED[who]
    answer = guarded.open().client().ask(sent)
    assert (answer.code, why in answer.remark) == (Answer.NO_PERMISSION, True), answer
    assert guarded.broker.peer.seen == []
    assert guarded.queue.ensured == []


@pytest.mark.parametrize(("group", "code"), [("billing", 0), ("theirs", Answer.NO_PERMISSION)])
def test_a_retry_needs_the_right_to_send_to_its_group(guarded: Scene, group: str, code: int) -> None:
    answer = guarded.open().client().ask(by(CLIENT, message(also={"delay-retry": group})))
    assert answer.code == code, answer
    assert len(guarded.broker.peer.seen) == (1 if code == 0 else 0)
    if code:
        assert f"Topic:ns.retry.{group}," in answer.remark


@pytest.mark.parametrize(("account", "code"), [(CLIENT, 0), (OTHER, 16), (CLIENT._replace(secret_key="guess"), 16)])
def test_a_recall_needs_the_right_to_send(guarded: Scene, account: AclCredentials, code: int) -> None:
    guarded.owners = Owners([found(State.PENDING)], [APPLIED])
    guarded.queue.records[RECORD] = record()
    assert guarded.open().client().ask(by(account, recall())).code == code
    assert len(guarded.queue.appended) == (1 if code == 0 else 0)


def test_without_accounts_of_clients_a_guarded_cluster_takes_no_delays_and_the_answer_names_the_setting(
    guarded: Scene,
) -> None:
    guarded.settings = replace(guarded.settings, accounts=())
    with capture_logs() as logged:
        client = guarded.open().client()
    assert any("proxy.rocketmq.account" in one["event"] for one in logged)
    answer = client.ask(by(CLIENT, message(DELAY="1")))
    assert (answer.code, "proxy.rocketmq.account" in answer.remark) == (Answer.NO_PERMISSION, True)
    assert client.ask(by(CLIENT, message())).code == 0


def test_where_brokers_check_nothing_a_signature_means_nothing(scene: Scene) -> None:
    """Some clients sign always."""
    sent = by(AclCredentials("anybody", "any"), message(DELAY="1"))
    assert scene.open().client().ask(sent).code == 0


def test_no_secret_is_shown(guarded: Scene) -> None:
    assert "-secret" not in repr(guarded.settings)
