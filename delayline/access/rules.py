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

The file may hold quotas, too (`delayline.access.quotas`); where no client of HTTP shows who it is, quotas alone.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from delayline.access.acts import Act
from delayline.access.patterns import EVERY, Patterns, any_of, principals_of
from delayline.access.quotas import QUOTAS_MAX, Quota, QuotaIn, quota, read_field
from delayline.errors import ConfigError

T = TypeVar("T")

RULES_MAX = 10_000
DECISIONS_KEPT = 65_536
"""Remembered for each version of the rules; about 200 bytes each."""

Acts = Annotated[tuple[Act, ...], msgspec.Meta(min_length=1)]
Quotas = Annotated[tuple[QuotaIn, ...], msgspec.Meta(max_length=QUOTAS_MAX)]

_TABLES = {name: re.compile(rf"^[ \t]*\[\[[ \t]*{name}[ \t]*\]\]", re.MULTILINE) for name in ("rule", "quota")}


class _RuleIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principals: Patterns
    topics: Patterns
    acts: Acts


class _FileIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: Annotated[tuple[_RuleIn, ...], msgspec.Meta(min_length=1, max_length=RULES_MAX)]
    quota: Quotas = ()


class _QuotasIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quota: Annotated[Quotas, msgspec.Meta(min_length=1)]


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
    """All rules and quotas of a file. For any number of threads."""

    def __init__(self, rules: Sequence[Rule], quotas: Sequence[Quota] = ()) -> None:
        self._rules = tuple(rules)
        self.quotas = tuple(quotas)
        self.deciding = lru_cache(DECISIONS_KEPT)(self._deciding)
        self.quota_of = lru_cache(DECISIONS_KEPT)(self._quota_of)

    def _deciding(self, names: tuple[str, ...], act: Act, topic: str | None) -> Rule | None:
        """The first rule that allows it to one of a caller's names: the principal, and its groups; None where none
        does."""
        return next((rule for rule in self._rules if rule.allows(names, act, topic)), None)

    def _quota_of(self, principal: str) -> Quota | None:
        """The first one that matches; None where there is no limit."""
        return next((one for one in self.quotas if one.principals.match(principal)), None)


def read_rules(data: bytes, name: str) -> AccessRules:
    """The rules and quotas in the content of the file `name`. Raises ConfigError."""
    return parse_rules(_text(data, name), name)


def read_quotas(data: bytes, name: str) -> AccessRules:
    """The quotas of a file that holds nothing else. Raises ConfigError: rules that nothing decides by would refuse
    nothing."""
    text = _text(data, name)
    if _TABLES["rule"].search(text):
        detail = "rules decide where clients of HTTP show who they are; elsewhere it holds quotas alone"
        raise ConfigError(f"{name}: {detail}.")
    found = _parsed(text, name, _QuotasIn)
    return AccessRules([], _quotas(text, name, found.quota))


def read_any(data: bytes, name: str) -> AccessRules:
    """What is in the file, whichever process it is for. Raises ConfigError."""
    is_of_quotas = not _TABLES["rule"].search(_text(data, name)) and _TABLES["quota"].search(_text(data, name))
    return read_quotas(data, name) if is_of_quotas else read_rules(data, name)


def parse_rules(text: str, name: str) -> AccessRules:
    """The rules and quotas in the text of the file `name`. Raises ConfigError: one sentence with the place of what is
    wrong."""
    found = _parsed(text, name, _FileIn)
    places = _places(text, name, "rule", len(found.rule))
    rules = [_rule(place, rule) for place, rule in zip(places, found.rule, strict=True)]
    return AccessRules(rules, _quotas(text, name, found.quota))


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8.") from error


def _parsed(text: str, name: str, kind: type[T]) -> T:
    try:
        return msgspec.convert(tomllib.loads(text), kind, dec_hook=read_field)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}.") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_lower(str(error))}.") from error


def _places(text: str, name: str, table: str, count: int) -> list[str]:
    lines = [text.count("\n", 0, found.start()) + 1 for found in _TABLES[table].finditer(text)]
    if len(lines) == count:
        return [f"{name}:{line}" for line in lines]
    return [f"{name}, {table} {number}" for number in range(1, count + 1)]  # written as an array of inline tables


def _rule(place: str, rule: _RuleIn) -> Rule:
    return Rule(
        place, principals_of(rule.principals), any_of(rule.topics), frozenset(rule.acts), EVERY in rule.topics
    )


def _quotas(text: str, name: str, given: Sequence[QuotaIn]) -> list[Quota]:
    places = _places(text, name, "quota", len(given))
    return [quota(place, one) for place, one in zip(places, given, strict=True)]


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
