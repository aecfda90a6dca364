"""Whether a topic takes more delayed messages, by figures that are never quite of now."""

from concurrent.futures import Future

import pytest

from delayline.clock import ManualClock
from delayline.questions.inquiry import ShardFigures
from delayline.questions.pending import ASK_EVERY_S, BELIEVED_S, Bounds, PendingLimits
from delayline.records.message import Shard


def figures(shard: Shard, pending: int, repeats: int = 0) -> ShardFigures:
    return ShardFigures(shard, ready=True, pending=pending, repeats=repeats)


NO_RULE = Bounds(None, 8)


class Owners:
    """Answers when a test asks for it."""

    def __init__(self) -> None:
        self.questions: list[Future[list[ShardFigures]]] = []

    def figures(self) -> "Future[list[ShardFigures]]":
        self.questions.append(Future())
        return self.questions[-1]

    def answer(self, *pending: int, question: int = -1) -> None:
        counted = [figures(Shard("mail", str(number)), count) for number, count in enumerate(pending)]
        self.questions[question].set_result([*counted, figures(Shard("orders", "0"), 10**9)])


class Scene:
    def __init__(self) -> None:
        self.clock, self.owners = ManualClock(), Owners()
        bounds = {"mail": Bounds(10, 5)}
        self.limits = PendingLimits(lambda topic: bounds.get(topic, NO_RULE), self.owners.figures, self.clock)

    def ask_and_answer(self, *pending: int) -> None:
        self.clock.advance(round(1000 * ASK_EVERY_S))
        self.limits.full("mail")
        self.owners.answer(*pending)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("pending", "sentence"),
    [
        ((9,), None),
        ((4, 5), None),
        ((10,), "10 messages wait for mail, its limit is 10"),
        ((4, 7), "11 messages wait"),
    ],
)
def test_a_topic_is_full_once_its_shards_together_have_as_many_as_its_rule_allows(
    scene: Scene, pending: tuple[int, ...], sentence: str | None
) -> None:
    scene.ask_and_answer(*pending)
    full = scene.limits.full("mail")
    assert full == sentence if sentence is None else (full or "").startswith(sentence)


def test_a_topic_without_a_limit_is_never_full_and_nobody_is_asked(scene: Scene) -> None:
    assert scene.limits.full("orders") is None
    assert scene.owners.questions == []


def test_what_is_not_known_refuses_nothing(scene: Scene) -> None:
    assert scene.limits.full("mail") is None
    scene.owners.questions[-1].set_exception(OSError("nobody answers"))
    assert scene.limits.full("mail") is None


def test_owners_are_not_asked_again_at_once(scene: Scene) -> None:
    scene.ask_and_answer(1)
    for _ in range(100):
        scene.limits.full("mail")
    assert len(scene.owners.questions) == 1
    scene.clock.advance(round(1000 * ASK_EVERY_S))
    scene.limits.full("mail")
    assert len(scene.owners.questions) == 2


def test_figures_of_another_time_are_forgotten(scene: Scene) -> None:
    scene.ask_and_answer(99)
    scene.clock.advance(round(1000 * BELIEVED_S))
    before = scene.limits.full("mail")
    scene.clock.advance(1)
    assert (before is not None, scene.limits.full("mail")) == (True, None)


def test_a_full_topic_takes_messages_again_once_there_is_room(scene: Scene) -> None:
    scene.ask_and_answer(10)
    scene.ask_and_answer(9)
    assert scene.limits.full("mail") is None


def test_there_is_one_question_at_a_time_however_long_it_takes(scene: Scene) -> None:
    scene.limits.full("mail")
    scene.clock.advance(60_000)
    scene.limits.full("mail")
    assert len(scene.owners.questions) == 1
    scene.owners.answer(10)
    assert scene.limits.full("mail") is not None


def test_after_a_question_that_failed_another_is_asked(scene: Scene) -> None:
    scene.limits.full("mail")
    scene.owners.questions[-1].cancel()
    scene.ask_and_answer(10)
    assert scene.limits.full("mail") is not None


def answer_repeats(scene: Scene, topic: str, *repeats: int) -> None:
    scene.clock.advance(round(1000 * ASK_EVERY_S))
    scene.limits.full(topic, repeats=1)
    shards = [figures(Shard(topic, str(number)), count, count) for number, count in enumerate(repeats)]
    scene.owners.questions[-1].set_result(shards)


@pytest.mark.parametrize(("topic", "repeats_max"), [("mail", 5), ("orders", 8)])
def test_a_topic_takes_no_more_repeats_once_its_shards_together_have_as_many_as_its_bound_allows(
    scene: Scene, topic: str, repeats_max: int
) -> None:
    answer_repeats(scene, topic, 3, repeats_max - 4)
    assert scene.limits.full(topic, repeats=1) is None
    answer_repeats(scene, topic, 3, repeats_max - 3)
    sentence = f"{repeats_max} messages that repeat wait for {topic}, its repeats_max is {repeats_max}"
    assert scene.limits.full(topic, repeats=1) == sentence


def test_a_topic_full_of_repeats_takes_what_is_delivered_once(scene: Scene) -> None:
    answer_repeats(scene, "orders", 8)
    assert scene.limits.full("orders") is None


def test_a_topic_full_of_messages_takes_no_repeat_either(scene: Scene) -> None:
    scene.ask_and_answer(10)
    assert "10 messages wait" in (scene.limits.full("mail", repeats=1) or "")


def test_a_bound_of_no_repeats_holds_before_anything_is_known(scene: Scene) -> None:
    limits = PendingLimits(lambda _: Bounds(None, 0), scene.owners.figures, scene.clock)
    assert limits.full("mail", repeats=1) is not None


@pytest.mark.parametrize(
    ("adds", "sentence"),
    [
        (2, None),
        (3, "8 messages wait for mail, its limit is 10: there is room for 2 more, not for 3"),
        (0, None),
    ],
)
def test_a_batch_is_refused_that_would_pass_the_limit(scene: Scene, adds: int, sentence: str | None) -> None:
    scene.ask_and_answer(8)
    assert scene.limits.full("mail", adds=adds) == sentence


def test_a_batch_is_refused_whose_repeats_would_pass_theirs(scene: Scene) -> None:
    answer_repeats(scene, "orders", 3, 1)
    assert scene.limits.full("orders", adds=9, repeats=4) is None
    sentence = "4 messages that repeat wait for orders, its repeats_max is 8: there is room for 4 more, not for 5"
    assert scene.limits.full("orders", adds=5, repeats=5) == sentence
    assert scene.limits.full("orders", adds=0, repeats=5) == sentence


def test_what_adds_no_message_passes_a_limit_that_is_passed_already(scene: Scene) -> None:
    scene.ask_and_answer(12)
    assert scene.limits.full("mail", adds=0) is None
