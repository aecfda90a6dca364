"""What an installation calls its own topics. Two installations with different namespaces may share a queue."""

import re
from dataclasses import dataclass

from delayline.errors import ConfigError

_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Kafka's rule (org.apache.kafka.common.internals.Topic), which holds for every queue."""
    return _TOPIC_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Names:
    """Names under one namespace (`<ns>`), for Kafka and the embedded queue."""

    namespace: str

    def buffer(self, topic: str) -> str:
        """Where messages for `topic` wait."""
        return f"{self.namespace}.buffer.{topic}"

    def target(self, buffer: str) -> str | None:
        """The topic whose messages wait in `buffer`; None where that is no buffer topic of ours."""
        prefix = self.buffer("")
        return buffer[len(prefix) :] if buffer.startswith(prefix) else None

    def retry(self, group: str) -> str:
        """Where the consumer group `group` gets a second time what it has failed on."""
        return f"{self.namespace}.retry.{group}"

    def dlq(self, group: str) -> str:
        """Where the group's failures end when it has failed too often."""
        return f"{self.namespace}.dlq.{group}"

    def is_group(self, topic: str) -> bool:
        """Whether the topic is a consumer group's, for retries or for those that are over."""
        return topic.startswith(self.group_prefixes)

    @property
    def group_prefixes(self) -> tuple[str, str]:
        """What the names of groups' topics begin with, in order."""
        return self.dlq(""), self.retry("")

    def is_hidden(self, topic: str) -> bool:
        """Whether the topic is of no use to users; those of groups are theirs to read."""
        return self.is_own(topic) and not self.is_group(topic)

    @property
    def dead(self) -> str:
        return f"{self.namespace}.dead"

    @property
    def audit(self) -> str:
        return f"{self.namespace}.audit"

    @property
    def operators(self) -> str:
        """Who did what."""
        return f"{self.namespace}.operators"

    @property
    def cursor(self) -> str:
        """Where queues whose consumer groups can be forgotten keep the cursors a second time; compacted."""
        return f"{self.namespace}.cursor"

    def worker(self, unique: str) -> str:
        """What a worker calls itself: its transactional id."""
        return f"{self.namespace}-worker-{unique}"

    def client(self, unique: str) -> str:
        """The transactional id of who appends for clients."""
        return f"{self.namespace}-api-{unique}"

    def claim(self, name: str) -> str:
        """The transactional id of who has claimed `name`: one at a time."""
        return f"{self.namespace}-claim-{name}"

    def is_writer(self, transactional_id: str) -> bool:
        """Whether the id is of this installation: its producer may be fenced, and begins anew or reports it."""
        return transactional_id.startswith((self.worker(""), self.client(""), self.claim("")))

    def is_own(self, topic: str) -> bool:
        """Whether the topic belongs to this installation: it never holds users' messages."""
        return topic.startswith(f"{self.namespace}.")


def installation(namespace: str) -> Names:
    """The names of the installation. Raises ConfigError for a namespace that no topic name could begin with."""
    if not is_topic_name(namespace):
        raise ConfigError(f"the namespace {namespace!r} is not 1 to 249 of the characters a-z A-Z 0-9 . _ -")
    return Names(namespace)
