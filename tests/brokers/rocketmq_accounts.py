"""A RocketMQ with access control (ACL 2.0), and accounts on it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from rocketmq.client.connection import connect
from rocketmq.clock import MachineClock
from rocketmq.wire.acl import AclCredentials
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import Command
from tests.brokers.rocketmq import RocketMq, started

ROOT = AclCredentials("root", "root-secret-1")
_CREATE_USER, _CREATE_ACL = 3001, 3006
_PROVIDERS = "org.apache.rocketmq.auth"
_GUARDED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ROOT.access_key, "secretKey": ROOT.secret_key}),
}

Rights = Mapping[str, Sequence[str]]
"""By resource: actions that are allowed."""


def guarded(**properties: str) -> AbstractContextManager[RocketMq]:
    """With these properties of its broker as well. Raises Unavailable."""
    return started(properties={**_GUARDED, **properties}, credentials=ROOT)


def rights_of_delayline(namespace: str, *targets: str) -> dict[str, list[str]]:
    """What docs/rocketmq.md lists."""
    return {
        f"Topic:{namespace}*": ["All"],
        f"Group:{namespace}*": ["All"],
        "Group:CID_RMQ_SYS_client": ["Sub"],
        **{f"Topic:{target}": ["Pub", "Sub", "Get"] for target in targets},
    }


def create_account(server: RocketMq, account: AclCredentials, rights: Rights | None = None) -> AclCredentials:
    """A normal one."""
    user = {"username": account.access_key, "password": account.secret_key, "userType": "Normal"}
    _ask(server, _CREATE_USER, {"username": account.access_key}, user)
    if rights is not None:
        grant(server, account, rights)
    return account


def grant(server: RocketMq, account: AclCredentials, rights: Rights) -> None:
    subject = f"User:{account.access_key}"
    entries = [
        {"resource": resource, "actions": list(actions), "decision": "Allow"}
        for resource, actions in rights.items()
        if actions
    ]
    policies = [{"policyType": "Custom", "entries": entries}]
    _ask(server, _CREATE_ACL, {"subject": subject}, {"subject": subject, "policies": policies})


def _ask(server: RocketMq, code: int, fields: dict[str, str], body: dict[str, Any]) -> None:
    with closing(connect(server.broker.address, server.settings, MachineClock())) as connection:
        answer = connection.ask(Command(code, fields, body=json.dumps(body).encode()))
        assert answer.code == Answer.SUCCESS, answer.remark
