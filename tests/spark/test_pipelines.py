"""The example of a declarative pipeline, run by `spark-pipelines` as its reader would run it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.topics import Topic
from tests.support.patience import patient

if TYPE_CHECKING:
    from tank_client.sync import Client
    from tests.support.processes.broker_process import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
RUN_TIMEOUT_S = patient(250)


def run_pipeline(folder: Path, servers: str) -> str:
    """What one run prints. The run's JVMs and Pythons are gone after it, however it ends."""
    import pyspark

    from pyspark_tank.java_home import use_java

    home = Path(pyspark.__file__).parent
    environment = dict(os.environ, SPARK_HOME=str(home), TANK_SERVERS=servers)
    use_java(environment=environment)
    settings = ("spark.sql.catalogImplementation=hive", "spark.ui.enabled=false")
    run = subprocess.Popen(
        [str(home / "bin" / "spark-pipelines"), "run", *(part for s in settings for part in ("--conf", s))],
        cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said = run.communicate(timeout=RUN_TIMEOUT_S)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, said[-4000:]
    return said


@pytest.fixture
def topics(client: Client, broker: BrokerProcess) -> Iterator[tuple[Topic, Topic]]:
    """What the example reads and writes, by the names that stand in it."""
    source, sink = (Topic(client, broker.address, name) for name in ("flights", "late-flights"))
    for topic in (source, sink):
        client.admin.create_topic(topic.name)
    yield source, sink
    for topic in (source, sink):
        client.admin.delete_topic(topic.name)


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_pipeline_reads_a_topic_into_a_table_and_from_there_into_a_topic(
    tmp_path: Path, broker: BrokerProcess, topics: tuple[Topic, Topic], runs: int
) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/late-flights", (tmp_path / "storage").as_uri()))
    flights, late = topics

    def add(carrier: str, minutes: int) -> None:
        flights.add([json.dumps({"carrier": carrier, "flight": 7, "dep_delay": minutes}).encode()])

    def run() -> list[bytes | None]:
        run_pipeline(folder, broker.address)
        return [message.key for message in late.messages()]

    keys = []
    for carrier, minutes in (("UA", 70), ("DL", 170))[:runs]:
        add(carrier, minutes)
        add("AA", 7)
        keys.append(carrier.encode())
        assert run() == keys, "each run goes on where the one before ended"
    last = {"carrier": carrier, "flight": 7, "dep_delay": float(minutes)}
    assert json.loads(late.messages()[-1].value) == last
