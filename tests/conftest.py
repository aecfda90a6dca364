"""Fixtures that more than one room's tests need."""

import gc
import logging
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import hypothesis
import pytest
import structlog

from tests.brokers.distribution import Unavailable
from tests.tiers import Collected, collected, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from tests.brokers.kafka import Kafka, KafkaAt
    from tests.brokers.rocketmq import RocketMq, RocketMqAt
    from tests.sharing import FromBothEnds

hypothesis.settings.register_profile("any pace", deadline=None, max_examples=examples(400))
hypothesis.settings.load_profile("any pace")
"""An example that takes long is a sign of a busy machine."""

Broker = TypeVar("Broker", "Kafka", "RocketMq")

COLLECTED = pytest.StashKey[list[Collected]]()
"""What tests/test_tiers.py is about."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hardly anything is garbage while tests are collected, and looking for it takes a third of the time. What is
    collected stays until the end, so that the collector passes over it from then on."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One process takes modules in their order, and finds soon what is wrong with a unit."""
    config.stash[COLLECTED] = collected(items)
    if hasattr(config, "workerinput"):
        from tests.sharing import place

        items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`-n auto`: one more than there are processors, because mostly one waits, for a broker, a kill or a due instant.
    `-n logical`, for what never waits: as many as there are."""
    return len(os.sched_getaffinity(0)) + (config.option.numprocesses == "auto")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "FromBothEnds | None":
    from tests.sharing import FromBothEnds

    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # by how many tests they have: the long ones, of which there are few, last
    return FromBothEnds(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    """Before a process for tests is started, be it in the place of one that has ended."""
    from tests.brokers.shared import lender_of

    node.workerinput["brokers"] = lender_of(node.config).address


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What fails is printed at once: a run may be ended from outside before its last line."""
    if report.failed and os.environ.get("CI") and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED in {report.when}: {report.nodeid}\n{report.longreprtext}", flush=True)


@contextmanager
def started(make: "Callable[[], Broker]") -> "Iterator[Broker]":
    """The broker that `make` makes. Skips where there can be none, and fails instead where CI is set."""
    with required(), closing(make()) as broker:
        broker.start()
        yield broker


@contextmanager
def required(what: str = "broker") -> Iterator[None]:
    """Where it cannot be had, skips, and fails instead where CI is set."""
    try:
        yield
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"no {what}: {error}")
        pytest.skip(f"no {what}: {error}")


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """For a test that sets up logging in this process, be it by a command: others read what is logged."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> "Iterator[KafkaAt]":
    """One Kafka node for the whole run."""
    yield from _shared(request.config, "kafka")


@pytest.fixture(scope="session")
def rocketmq(request: pytest.FixtureRequest) -> "Iterator[RocketMqAt]":
    """A name server and a broker of RocketMQ for the whole run."""
    yield from _shared(request.config, "rocketmq")


def _shared(config: pytest.Config, kind: str) -> Iterator[Any]:
    """From the process that distributes the tests, where there are several."""
    from tests.brokers.shared import KINDS, borrowed

    with required(), ExitStack() as own:
        worker = getattr(config, "workerinput", None)
        yield KINDS[kind](own) if worker is None else borrowed(worker["brokers"], kind)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Skips without Java, and fails instead where CI is set."""
    if shutil.which("java") is None:
        if os.environ.get("CI"):
            pytest.fail("no Spark: there is no java on the path")
        pytest.skip("no Spark: there is no java on the path")
    from tests.reconcile.session import opened

    with opened() as session:
        yield session
