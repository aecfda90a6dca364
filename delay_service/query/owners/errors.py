"""What comes instead of an answer. All of them are `delayline.questions.inquiry.OwnerUnavailable`: no owner answers
right now.

OwnerUnavailable
├── NotMine    the worker that was asked does not own the shard, or is not there any more: look again whose it is
├── NotYet     it does, and had no answer in the time that it was given
└── Rejected   two processes do not understand each other: another secret, another version, too much of something
"""

from delayline.questions.inquiry import OwnerUnavailable


class NotMine(OwnerUnavailable):
    """The worker that was asked does not own the shard, or is not there any more."""


class NotYet(OwnerUnavailable):
    """No answer in the time that the worker was given."""


class Rejected(OwnerUnavailable):
    """Another secret, another version, or too much of something: to ask the same again does not help."""
