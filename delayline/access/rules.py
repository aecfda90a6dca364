"""Rules: which principal may do what to which topics.

A file of them is TOML:

    [[rule]]
    principals = ["orders-service", "team-a/*"]
    topics = ["orders.*"]
    acts = ["send", "cancel"]

`*` and `?` stand for other characters, and `["*"]` for every principal, or topic. Every rule names all three, and a
file has a rule at least, so that half a file is seldom valid. Rules allow and never forbid, so their order means
nothing, and what no rule allows is refused. The model is Kafka's authorizer without DENY: with it, two rules together
mean something else than each of them.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec

from delayline.access.acts import Act
from delayline.errors import ConfigError

RULES_MAX = 10_000
DECISIONS_KEPT = 65_536
"""Remembered for each version of the rules; about 200 bytes each."""

EVERY = "*"
STAR, MARK = re.escape("*"), re.escape("?")

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=1000)]
Acts = Annotated[tuple[Act, ...], msgspec.Meta(min_length=1)]

_TABLE = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)


class _RuleIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principals: Patterns
    topics: Patterns
    acts: Acts


class _FileIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: Annotated[tuple[_RuleIn, ...], msgspec.Meta(min_length=1, max_length=RULES_MAX)]


class Rule(NamedTuple):
    """One rule. `place` is where it stands: a phrase for people."""

    place: str
    principals: re.Pattern[str]
    topics: re.Pattern[str]
    acts: frozenset[Act]
    is_of_every_topic: bool

    def allows(self, principal: str, act: Act, topic: str | None) -> bool:
        """`topic` is None for what is about no topic, or about all: only a rule of every topic allows that."""
        if act not in self.acts or not self.principals.match(principal):
            return False
        return self.is_of_every_topic if topic is None else self.topics.match(topic) is not None


class AccessRules:
    """All rules of a file. For any number of threads."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self.deciding = lru_cache(DECISIONS_KEPT)(self._deciding)

    def _deciding(self, principal: str, act: Act, topic: str | None) -> Rule | None:
        """The first rule that allows it; None where none does."""
        return next((rule for rule in self._rules if rule.allows(principal, act, topic)), None)


def read_rules(data: bytes, name: str) -> AccessRules:
    """The rules in the content of the file `name`. Raises ConfigError."""
    try:
        return parse_rules(data.decode(), name)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8.") from error


def parse_rules(text: str, name: str) -> AccessRules:
    """The rules in the text of the file `name`. Raises ConfigError: one sentence with the place of what is wrong."""
    try:
        found = msgspec.convert(tomllib.loads(text), _FileIn)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}.") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_lower(str(error))}.") from error
    lines = [text.count("\n", 0, table.start()) + 1 for table in _TABLE.finditer(text)]
    places = [f"{name}:{line}" for line in lines]
    if len(places) != len(found.rule):  # written as an array of inline tables
        places = [f"{name}, rule {number}" for number in range(1, len(found.rule) + 1)]
    return AccessRules([_rule(place, rule) for place, rule in zip(places, found.rule, strict=True)])


def _rule(place: str, rule: _RuleIn) -> Rule:
    return Rule(place, _any_of(rule.principals), _any_of(rule.topics), frozenset(rule.acts), EVERY in rule.topics)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches from the beginning to the end. `[` and `]` stand for themselves."""
    escaped = (re.escape(one).replace(STAR, ".*").replace(MARK, ".") for one in patterns)
    return re.compile(f"(?:{'|'.join(escaped)})\\Z", re.DOTALL)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
