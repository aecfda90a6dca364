"""Where brokers check accounts: what of a client's request the proxy has to check in their place.

A client signs its request. What the proxy makes of a delayed send has other fields, and a recall goes to no broker.
So the proxy checks the signature with the client's secret, and the right to send to the topic, both from its
settings; what it sends on it signs as Delayline. Codes and texts are RocketMQ's, of ACL 2.0
(`DefaultAuthenticationHandler`, `AclAuthorizationHandler`), but for the address.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from proxy.rocketmq.sends.request import RemotingRefusal
from rocketmq.wire.acl import ACCESS_KEY, SECURITY_TOKEN, AclCredentials, is_signed_by, signed
from rocketmq.wire.codes import Answer
from rocketmq.wire.command import Command

_OF_CLIENT = frozenset({ACCESS_KEY, SECURITY_TOKEN})

NO_ACCOUNTS = (
    "delayed messages are not taken: brokers have access control (mq.properties has access_key), and the proxy knows "
    "no clients' accounts (proxy.rocketmq.account)"
)


class Account(NamedTuple):
    """A client's, which may send to `topics`."""

    access_key: str
    secret_key: str
    topics: re.Pattern[str]

    def __repr__(self) -> str:
        return f"Account({self.access_key!r})"


class Accounts:
    """`own` is Delayline's; without one brokers check nothing, and neither does this."""

    def __init__(self, own: AclCredentials | None, accounts: Iterable[Account]) -> None:
        self._own = own
        self._accounts = {account.access_key: account for account in accounts}

    @property
    def trouble(self) -> str | None:
        """Why no client may send delayed messages; None where that depends on the client."""
        return NO_ACCOUNTS if self._own is not None and not self._accounts else None

    def refusal(self, request: Command, topic: str) -> RemotingRefusal | None:
        """Why the client of this request, as it came, may not send to `topic`; None where it may."""
        why = None if self._own is None else self.trouble or self._why_not(request, topic)
        return None if why is None else RemotingRefusal(Answer.NO_PERMISSION, why)

    def _why_not(self, request: Command, topic: str) -> str | None:
        name = request.fields.get(ACCESS_KEY)
        if not name:
            return "username cannot be null."
        account = self._accounts.get(name)
        if account is None:
            return f"User:{name} is not found among the proxy's accounts."
        if not is_signed_by(request.fields, request.body, account.secret_key):
            return "check signature failed."
        if account.topics.fullmatch(topic) is None:
            return f"User:{name} has no permission to access Topic:{topic}, no matched policies."
        return None

    def signed(self, request: Command) -> Command:
        """By Delayline, where brokers check accounts. Hot."""
        if self._own is None:
            return request
        fields = {name: value for name, value in request.fields.items() if name not in _OF_CLIENT}
        return replace(request, fields=signed(fields, request.body, self._own))
