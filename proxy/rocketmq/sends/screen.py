"""Which messages of a send are delayed, and which sends are refused.

The verdict on directives is `delayline.schedule.verdict.read_directives`', as everywhere; RocketMQ's own delays
become one of them first (`delays`). Which message is delayed follows from its topic and its properties; the time of
day only bounds how far ahead it may be due, and decides about moments that have passed.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from delayline.records.headers import ATTEMPT, RESERVED, SENT
from delayline.records.message import Header
from delayline.schedule.directives import directive_names
from delayline.schedule.lookalikes import Lookalike, lookalikes
from delayline.schedule.unheeded import Why
from delayline.schedule.verdict import Immediate, Invalid, Op, Schedule, read_directives
from proxy.rocketmq.sends import delays
from proxy.rocketmq.sends.delays import delay_of
from proxy.rocketmq.sends.request import RemotingRefusal
from proxy.screening import NameScreen
from rocketmq.wire.codes import Answer
from rocketmq.wire.properties import decode_properties


def has_hint(text: str) -> bool:
    """Every name of a directive, of RocketMQ's delays and of what only Delayline may write holds one of these; and so
    does nearly every name that is like one. Hot: twenty times as fast as a regular expression."""
    plain = text.lower()
    return "elay" in plain or "eliver" in plain or "scheduler-" in plain


_NATIVE = tuple(f"{name}\x01" for name in sorted(delays.NAMES))
"""As properties have RocketMQ's own names, or longer ones that end so: then `SendScreen.look` decides."""


class Delayed(NamedTuple):
    """A message that goes to the buffer: with these directives, and its other properties."""

    directives: tuple[Header, ...]
    properties: Mapping[str, str]
    verdict: Schedule | Op


@lru_cache
def names_of(aliases: tuple[str, ...]) -> frozenset[str]:
    """Properties that are directives, or that only Delayline may write. RocketMQ's own are `delays.NAMES`."""
    names = directive_names(aliases) | RESERVED | {ATTEMPT, SENT}
    return frozenset(name.decode() for name in names) - delays.NAMES


class Named(NamedTuple):
    """Of a message's properties, by their names: directives and what only Delayline may write; what is like them;
    what consumers see. Where `delay.aliases` has RocketMQ's names these are directives, of which the log has one
    already; elsewhere they stay, as RocketMQ leaves them."""

    given: tuple[str, ...]
    like: tuple[Lookalike, ...]
    kept: tuple[str, ...]


@lru_cache(1000)
def named_in(names: tuple[str, ...], aliases: tuple[str, ...]) -> Named:
    """Remembered: the messages of a producer have the same names."""
    ours = names_of(aliases)
    left_out = ours | delays.NAMES if "rocketmq" in aliases else ours
    like = lookalikes([name.encode() for name in names if name not in delays.NAMES], aliases)
    given = tuple(name for name in names if name in ours)
    return Named(given, tuple(like), tuple(name for name in names if name not in left_out))


class SendScreen(NameScreen):
    """Of messages."""

    def concerns(self, topic: str, text: str) -> bool:
        """Whether a message with these properties, to a topic that takes delays, has to be looked at. Hot: once per
        send."""
        if not has_hint(text):
            return self._rules_for(topic).default_delay_ms > 0
        rules = self._rules_for(topic)
        if rules.default_delay_ms or any(end in text for end in _NATIVE):
            return True
        names = named_in(tuple(decode_properties(text)), rules.aliases)
        return bool(names.given or names.like)

    def look(self, topic: str, properties: Mapping[str, str], now_ms: int) -> Delayed | RemotingRefusal | None:
        """None: it goes straight to its topic, as it came. Hot: once per message that is looked at."""
        rules = self._rules_for(topic)
        names = named_in(tuple(properties), rules.aliases)
        if names.like and (wrong := self._misnamed(topic, names.like)):
            return RemotingRefusal(Answer.MESSAGE_ILLEGAL, wrong)
        native = delay_of(properties, now_ms, rules, self._horizon_max_ms)
        if isinstance(native, RemotingRefusal):
            return native
        given = [(name.encode(), properties[name].encode()) for name in names.given]
        directives = (*given, native) if native is not None else tuple(given)
        if SENT.decode() in names.given:
            return _illegal(SENT.decode(), "a header of Delayline's own, which clients may not send")
        verdict = read_directives(directives, now_ms, rules, self._horizon_max_ms)
        if isinstance(verdict, Invalid):
            return _illegal(verdict.directive, verdict.detail)
        if isinstance(verdict, Immediate):
            return None
        return Delayed(directives, {name: properties[name] for name in names.kept}, verdict)

    def pass_by(self, topic: str, properties: Iterable[str]) -> RemotingRefusal | None:
        """Directives of ours in a topic that takes no delays have no effect; RocketMQ's own have theirs."""
        names = names_of(self._rules_for(topic).aliases)
        for name in names.intersection(properties):
            if self.refuse_unknown:
                why = "delay.topics does not name the topic, and delay.unknown is refuse"
                return RemotingRefusal(Answer.MESSAGE_ILLEGAL, f"{name}: {why}")
            if self._unheeded is not None:
                self._unheeded.note(topic, name, Why.TOPIC)
        return None


def _illegal(name: str, detail: str) -> RemotingRefusal:
    return RemotingRefusal(Answer.MESSAGE_ILLEGAL, f"{name}: {detail}")
