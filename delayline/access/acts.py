"""What a principal can be allowed to do."""

from enum import StrEnum


class Act(StrEnum):
    """An act, by the word that rules have for it. Each is about a topic, but for `METRICS` and `ADMIN`."""

    SEND = "send"
    READ = "read"  # that messages wait, when they are due, how they ended: nothing of what they hold
    PAYLOAD = "payload"  # what messages and records hold
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    CONTROL = "control"  # pause, resume, purge, redrive, skip
    TOPICS = "topics"  # make and delete
    METRICS = "metrics"
    ADMIN = "admin"  # see who did what, and quotas
