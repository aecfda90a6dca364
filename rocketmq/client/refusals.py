"""Answers other than success, as exceptions."""

from collections.abc import Collection

from rocketmq.errors import GroupMissing, NotAllowed, Refused, TopicMissing
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command

_KINDS: dict[int, type[Refused]] = {
    Answer.TOPIC_NOT_EXIST: TopicMissing,
    Answer.SUBSCRIPTION_GROUP_NOT_EXIST: GroupMissing,
    Answer.NO_PERMISSION: NotAllowed,
}
_NAMES = {int(one): one.name for one in Request}
_SUCCESS = frozenset({int(Answer.SUCCESS)})


def check(answer: Command, request: Command, success: Collection[int] = _SUCCESS) -> Command:
    """The answer, where its code is one of `success`. Raises Refused."""
    if answer.code not in success:
        asked = _NAMES.get(request.code, str(request.code))
        raise _KINDS.get(answer.code, Refused)(answer.code, answer.remark, asked)
    return answer
