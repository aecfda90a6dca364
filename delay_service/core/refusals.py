"""Records that cannot be delivered, and how they go to the dead letters instead."""

from collections.abc import Iterable

from delay_service.core.dead import Refusal
from delayline.records.message import Key
from mq.errors import Refused


class Refusals(dict[Key, Refusal]):
    """Of one shard, until the commit that dead-letters them."""

    def learn(self, key: Key, code: str, reason: str, what: Refused) -> bool:
        """A batch that ended this record alone was refused, because of `what` it would write. Whether there is
        another way to write it, which has not been tried."""
        before = self.get(key)
        known = before or Refusal(code, reason)
        if what is Refused.DEAD_LETTER:
            self[key] = known._replace(left_out=True)
            return not known.left_out
        self[key] = Refusal(code, reason, known.left_out, known.ends or what is Refused.APPEND)
        return before is None or self[key].ends != before.ends

    def forget(self, ended: Iterable[tuple[int, int]]) -> None:
        """These records have ended."""
        for key in ended if self else ():
            self.pop(Key(*key), None)
