"""The questions of `delayline.questions.inquiry.Owners` as bytes: MessagePack, by the type hints of the protocol
itself.

A question is the array of its arguments. An answer is an array of two: which of the types that the hint names it has
(0 where there is one), and the answer itself. A method that is added to the protocol needs nothing here; one whose
types cannot travel fails when this module is imported.
"""

import inspect
from collections.abc import Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from delayline.errors import DelaylineError
from delayline.questions.inquiry import Owners
from delayline.records.message import MessageId, Shard

_ENCODER = msgspec.msgpack.Encoder()
_ANSWER = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])


class Malformed(DelaylineError):
    """Bytes that are no question of this method, or no answer to it: another version wrote them."""


class Method:
    """One method of the protocol."""

    def __init__(self, name: str) -> None:
        """Raises TypeError for types that cannot travel."""
        self.name = name
        hints = get_type_hints(getattr(Owners, name))
        parameters = list(inspect.signature(getattr(Owners, name)).parameters)[1:]
        (answer,) = get_args(hints["return"])
        self._question = msgspec.msgpack.Decoder(tuple[tuple(hints[name] for name in parameters)])  # type: ignore[misc]
        self._types = get_args(answer) if get_origin(answer) in (Union, UnionType) else (answer,)
        self._answers = [msgspec.msgpack.Decoder(kind) for kind in self._types]

    def encode_question(self, arguments: tuple[Any, ...]) -> bytes:
        return _ENCODER.encode(arguments)

    def decode_question(self, data: bytes) -> tuple[Any, ...]:
        """Raises Malformed."""
        try:
            found: tuple[Any, ...] = self._question.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"not the arguments of {self.name}: {error}") from error
        return found

    def encode_answer(self, answer: Any) -> bytes:
        kinds = [get_origin(kind) or kind for kind in self._types]
        number = next(number for number, kind in enumerate(kinds) if isinstance(answer, kind))
        return _ENCODER.encode((number, answer))

    def decode_answer(self, data: bytes) -> Any:
        """Raises Malformed."""
        try:
            number, answer = _ANSWER.decode(data)
            return self._answers[number].decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
            raise Malformed(f"not an answer to {self.name}: {error}") from error

    @staticmethod
    def shard(arguments: tuple[Any, ...]) -> Shard | None:
        """The one shard whose owner is asked; None where the question is for several owners."""
        match arguments:
            case (MessageId(shard=shard), *_) | (Shard() as shard, *_):
                return shard
        return None


def covered(answers: Sequence[Any]) -> set[Shard]:
    """The shards that parts of an answer are about: each names them in its `shard` or its `shards`."""
    return {shard for one in answers for shard in (one.shards if hasattr(one, "shards") else (one.shard,))}


METHODS = {name: Method(name) for name in vars(Owners) if not name.startswith("_")}
"""By name: all that the protocol has."""
