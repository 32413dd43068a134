"""One Spark and one broker for all tests of this folder; a topic of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.spark.java.jvm import SharedSpark
from tests.spark.topics import Topic
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tank_client.sync import Client

NewTopic = Callable[..., Topic]

SPARK_GAVE_UP: Final = "Python worker failed to connect back"
"""What Spark says of a streaming source's Python process that did not start in ten seconds. No setting
of Spark moves them, and on a machine that is busy with other work they are short."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of this folder that fails with these words of Spark, and with no other, runs again."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=3, only_rerun=SPARK_GAVE_UP))


@pytest.fixture(scope="session")
def shared_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSpark]:
    """The one of this run."""
    shared = SharedSpark(tmp_path_factory.mktemp("spark"))
    yield shared
    shared.stop()


@pytest.fixture
def spark(shared_spark: SharedSpark) -> SparkSession:
    """A Spark that answers, whatever the test before did to it."""
    return shared_spark.session()


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


@pytest.fixture
def broker(_broker: BrokerProcess) -> BrokerProcess:
    """A real broker that runs. One that a failed test left stopped is started again."""
    if not _broker.runs:
        _broker.start()
    return _broker


@pytest.fixture(scope="session")
def _client(_broker: BrokerProcess) -> Iterator[Client]:
    from tank_client.sync import Client

    with Client(_broker.address) as connected:
        # A cluster that was founded just now is about to raise its feature level.
        until(lambda: len(connected.admin.reserve_producer_ids(2)) == 2, "the feature level of today")
        yield connected


@pytest.fixture
def client(_client: Client, broker: BrokerProcess) -> Client:
    """Connected to the broker."""
    return _client


_numbers = itertools.count(1)


@pytest.fixture
def new_topic(client: Client, broker: BrokerProcess) -> NewTopic:
    """Makes topics whose names nobody else has: `new_topic(partitions=2, settings={...})`."""

    def make(partitions: int = 1, settings: dict[str, str] | None = None) -> Topic:
        name = f"topic-{next(_numbers)}"
        client.admin.create_topic(name, partitions=partitions, settings=settings)
        return Topic(client, broker.address, name)

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
