"""All settings together, and what follows from them for a topic."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from delayline.config.entrance import Access, Api, Metrics
from delayline.config.layers import SettingPath
from delayline.config.proxies import Proxy
from delayline.config.section import Section
from delayline.config.sections import (
    FOR_EVER,
    NO_RULE,
    Audit,
    Delay,
    DelayRule,
    Dispatch,
    History,
    Internal,
    Log,
    Mq,
    ProcessSection,
    Reconcile,
    RetrySection,
    Store,
    TopicRule,
    Topics,
    WorkerSection,
)
from delayline.config.types import Folder, Namespace
from delayline.names import Names, is_topic_name
from delayline.questions.pending import Bounds
from delayline.schedule.rules import RULES_BYTES_MAX, Rules


class Settings(Section):
    """Everything that can be set. Made by `load_settings`; built by hand it lacks the checks of what is not built."""

    namespace: Namespace = "delayline"
    data_dir: Folder = Path("./data")
    mq: Mq = Mq()
    dispatch: Dispatch = Dispatch()
    store: Store = Store()
    history: History = History()
    audit: Audit = Audit()
    api: Api = Api()
    access: Access = Access()
    metrics: Metrics = Metrics()
    worker: WorkerSection = WorkerSection()
    internal: Internal = Internal()
    process: ProcessSection = ProcessSection()
    log: Log = Log()
    topics: Topics = Topics()
    delay: Delay = Delay()
    retry: RetrySection = RetrySection()
    proxy: Proxy = Proxy()
    reconcile: Reconcile = Reconcile()

    _sources: dict[SettingPath, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _default_topics(cls, given: Any) -> Any:
        """Where others own the topics, none takes delays before an operator names it."""
        kind, delay = given.get("mq", {}).get("kind", "embedded"), given.get("delay", {})
        if kind == "embedded" or "topics" in delay:
            return given
        return {**given, "delay": {**delay, "topics": ()}}

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        """The log remembers the rules, so they must be small enough for it, and every level must be within reach."""
        if max(self.delay.levels) > self.delay.horizon_max:
            raise PydanticCustomError("setting", "a delay level is longer than delay.horizon_max")
        if any(len(rules.encoded) > RULES_BYTES_MAX for rules in self._rules_by_default.values()):
            message = f"delay.levels are too long: the rules have more than {RULES_BYTES_MAX} bytes"
            raise PydanticCustomError("setting", "{message}", {"message": message})
        if max(self._rules_by_default) > self.delay.horizon_max:
            raise PydanticCustomError("setting", "a default_delay is longer than delay.horizon_max")
        return self

    @model_validator(mode="after")
    def _check_rule_topics(self) -> Self:
        """A rule for a topic that takes no delays would be accepted and do nothing."""
        for topic in (topic for rule in self.delay.rule for topic in rule.topics):
            if not set("*?") & set(topic) and not self.is_delay_enabled(topic):
                message = f"delay.rule: {topic} takes no delays, see delay.topics"
                raise PydanticCustomError("setting", "{message}", {"message": message})
        return self

    @model_validator(mode="after")
    def _check_retention(self) -> Self:
        """The reconcile job reads the audit, and gets `audit.hold_max` for it."""
        keep = self.retention_for(self._names.audit)
        if keep.retention_bytes is not None:
            message = f"topics.rule: {self._names.audit} takes no retention_bytes: the reconcile job reads it by time"
            raise PydanticCustomError("setting", "{message}", {"message": message})
        if keep.retention is not None and keep.retention < self.audit.hold_max:
            message = f"topics.rule: {self._names.audit} is kept for audit.hold_max at least"
            raise PydanticCustomError("setting", "{message}", {"message": message})
        return self

    @property
    def keeps_acts(self) -> bool:
        """Whether who did what goes to the topic `<namespace>.operators`: by itself where callers are known."""
        chosen = self.access.act_topic
        return not self.api.auth.startswith("none") if chosen is None else chosen

    def retention_for(self, topic: str) -> TopicRule:
        """What holds for how long, and how much, the topic keeps."""
        own = f"{self.namespace}."
        return next((rule for rule in self.topics.rule if rule.matches(topic, own)), FOR_EVER)

    def rules(self) -> Rules:
        """The part of the settings that due times depend on, for topics without a rule of their own."""
        return self._rules_by_default[0]

    def rules_for(self, topic: str) -> Rules:
        """The same for this topic."""
        return self._rules_by_default[self.rule_for(topic).default_delay or 0]

    def rule_for(self, topic: str) -> DelayRule:
        """The first rule that matches."""
        return next((rule for rule in self.delay.rule if rule.pattern.match(topic)), NO_RULE)

    def bounds_for(self, topic: str) -> Bounds:
        """How many of the topic's messages may wait."""
        rule = self.rule_for(topic)
        return Bounds(rule.pending_max, self.delay.repeats_max if rule.repeats_max is None else rule.repeats_max)

    @cached_property
    def _rules_by_default(self) -> Mapping[int, Rules]:
        """By default delay in ms: there are few, and each is encoded once."""
        delay = self.delay
        attempts_max = self.retry.attempts_max
        rules = Rules(levels_ms=delay.levels, aliases=delay.aliases, retry_attempts_max=attempts_max)
        defaults = {0, *(rule.default_delay or 0 for rule in delay.rule)}
        return {default_ms: msgspec.structs.replace(rules, default_delay_ms=default_ms) for default_ms in defaults}

    def is_delay_enabled(self, topic: str) -> bool:
        """Whether messages to the topic may wait. Never for our own topics and for those of the queue itself, nor
        where the name of the buffer topic would be too long. Hot: once per message, about 1 us."""
        names = self._names
        return (
            not names.is_own(topic)
            and not topic.startswith(("__", "%"))
            and is_topic_name(topic)
            and is_topic_name(names.buffer(topic))
            and self.delay.pattern.match(topic) is not None
        )

    @cached_property
    def _names(self) -> Names:
        return Names(self.namespace)

    def value(self, key: str) -> Any:
        """What the setting with this dotted key is."""
        value: Any = self
        for name in key.split("."):
            value = getattr(value, name)
        return value

    def source(self, key: str) -> str:
        """Where it was written: a phrase for error messages."""
        return self._sources.get(tuple(key.split(".")), "default")
