"""A thread that must last goes on after whatever it has met."""

from threading import Event

import pytest

from delayline.process import threads


class Run:
    """Raises each of these, and then returns when it is closed."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.lasts, self.closing = Event(), Event()

    def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.lasts.set()
        self.closing.wait()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "AGAIN_S", 0)


@pytest.mark.parametrize("error", [RuntimeError("closed"), SystemError("lost"), KeyError(1), BaseException("panic")])
def test_a_thread_that_fails_begins_again_and_is_counted(error: BaseException) -> None:
    run, before = Run(error, error), threads.failures().get("test-thread", 0)
    thread = threads.lasting("test-thread", run, run.closing)
    thread.start()
    assert run.lasts.wait(30)
    assert threads.failures()["test-thread"] == before + 2
    run.closing.set()
    thread.join(30)
    assert not thread.is_alive()


def test_a_thread_whose_owner_has_closed_is_not_begun_again() -> None:
    run = Run(RuntimeError("closed"), RuntimeError("closed"))
    run.closing.set()
    threads.run_lastingly("test-thread", run, run.closing)
    assert len(run.errors) == 1
