"""Rules: which principal may do what to which topics.

A file of them is TOML:

    [[rule]]
    principals = ["orders-service", "team-a/*"]
    topics = ["orders.*"]
    acts = ["send", "cancel"]

`*` and `?` stand for other characters, and `["*"]` for every principal, or topic. In principals they do not stand for
the first colon: a name with one comes from an identity provider (`oidc:ann`, `oidc-group:ops`), whose users may not
choose it so that a rule for keys fits. Every rule names all three, and a file has a rule at least, so that half a
file is seldom valid. Rules allow and never forbid, so their order means nothing, and what no rule allows is refused.
The model is Kafka's authorizer without DENY: with it, two rules together mean something else than each of them.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
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

    def allows(self, names: Sequence[str], act: Act, topic: str | None) -> bool:
        """`topic` is None for what is about no topic, or about all: only a rule of every topic allows that."""
        if act not in self.acts or not any(map(self.principals.match, names)):
            return False
        return self.is_of_every_topic if topic is None else self.topics.match(topic) is not None


class AccessRules:
    """All rules of a file. For any number of threads."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self.deciding = lru_cache(DECISIONS_KEPT)(self._deciding)

    def _deciding(self, names: tuple[str, ...], act: Act, topic: str | None) -> Rule | None:
        """The first rule that allows it to one of a caller's names: the principal, and its groups; None where none
        does."""
        return next((rule for rule in self._rules if rule.allows(names, act, topic)), None)


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
    return Rule(place, _principals(rule.principals), _any_of(rule.topics), frozenset(rule.acts), EVERY in rule.topics)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches from the beginning to the end. `[` and `]` stand for themselves."""
    return _compiled(_wild(one, ".") for one in patterns)


def _principals(patterns: Sequence[str]) -> re.Pattern[str]:
    """The same, in which nothing stands for the first colon of a name but `*` alone."""
    return _compiled(_wild(one, ".") if one == EVERY else _of_kind(one) for one in patterns)


def _of_kind(pattern: str) -> str:
    kind, colon, rest = pattern.partition(":")
    return _wild(kind, "[^:]") + colon + _wild(rest, ".")


def _wild(pattern: str, any_one: str) -> str:
    return re.escape(pattern).replace(STAR, f"{any_one}*").replace(MARK, any_one)


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(patterns)})\\Z", re.DOTALL)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
