"""One Spark and one broker for all tests of this folder; a topic of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.topics import Topic
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tank_client.sync import Client

NewTopic = Callable[..., Topic]

TASK_ATTEMPTS = 3


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Real Spark on two cores. The source is found by its name: nobody registers it."""
    from pyspark.sql import SparkSession

    from pyspark_tank.java_home import use_java

    use_java()
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master(f"local[2,{TASK_ATTEMPTS}]")
        .appName("tests")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A real broker; a test that stops it starts it again."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


@pytest.fixture(scope="session")
def client(broker: BrokerProcess) -> Iterator[Client]:
    from tank_client.sync import Client

    with Client(broker.address) as connected:
        yield connected


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
