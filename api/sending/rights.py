"""What a message needs beside the right to send it to its topic."""

from api.http.caller import Caller, check
from api.sending.drafts import Draft
from delayline.access.acts import Act
from delayline.names import Names

_RETRY = b"delay-retry"


class SendRights:
    """Hot: once per message."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def check(self, caller: Caller, topic: str, draft: Draft) -> None:
        """One that replaces another message ends it, and a retry goes to its group's topic. Raises Refusal (403)."""
        if not draft.directives:
            return
        if draft.replaces:
            check(caller, Act.CANCEL, topic)
        group = next((value for name, value in draft.directives if name == _RETRY), None)
        if group is not None:
            check(caller, Act.SEND, self._names.retry(group.decode()))
