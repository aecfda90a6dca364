"""The quota of a principal, and the messages that it sends and moves."""

from collections.abc import Sequence

from api.http.problems import refusal_over_quota
from api.sending.drafts import Draft, ScheduleValidator
from api.sending.sender import Sender
from api.topics import Target, TopicBook
from delayline.access.ledger import Account, OverQuota
from delayline.records.message import Header


class SendQuotas:
    """`account` is None where no quota is for the principal: that costs nothing."""

    def __init__(
        self, validator: ScheduleValidator, topics: TopicBook, sender: Sender, *, makes_topics: bool
    ) -> None:
        """`makes_topics`: whether a message to a topic that is missing makes it."""
        self._validator = validator
        self._topics = topics
        self._sender = sender
        self._makes_topics = makes_topics

    def check(self, account: Account | None, directives: Sequence[Header], now_ms: int) -> None:
        """How far ahead a message with these directives is due, and how often it is delivered. The waits of a retry
        are the operator's choice. Hot: once per message. Raises Refusal (400)."""
        if account is None or not directives or not account.quota.bounds_schedules:
            return
        schedule = self._validator.schedule(directives, now_ms)
        if schedule.retries is not None:
            return
        try:
            account.check_schedule(schedule.due_ms - now_ms, schedule.times)
        except OverQuota as error:
            raise refusal_over_quota(error, "/schedule") from error

    async def target(self, account: Account | None, topic: str, drafts: Sequence[Draft]) -> Target:
        """See `Sender.target`; a topic that is made counts. Raises OverQuota, too."""
        counts = account is not None and account.quota.topics is not None and self._makes_topics
        if account is None or not counts or await self._topics.is_there(topic):
            return await self._sender.target(topic, drafts)
        with account.making_topic():
            return await self._sender.target(topic, drafts)
