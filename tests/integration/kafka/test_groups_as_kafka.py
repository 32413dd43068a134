"""Our broker answers the scripts of groups and leader epochs as real Kafka 4.1 did when that was recorded."""

from collections.abc import Iterator

import pytest

from tests.kafka_clients.beside.our_server import OurServer
from tests.kafka_clients.beside.recorded import Record, differences, load, unneeded
from tests.kafka_clients.beside.scripts import SCRIPTS, play
from tests.kafka_clients.beside.talk import await_groups

pytestmark = pytest.mark.integration

RECORDED = [script.name for script in SCRIPTS]
ROOMS = list(dict.fromkeys(name.partition(".")[0] for name in RECORDED))
"""In the order in which they were recorded: the group without a name is that of all scripts."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServer]:
    with OurServer(tmp_path_factory.mktemp("beside") / "ours") as server:
        await_groups(server)
        yield server


@pytest.fixture(scope="module")
def record() -> Record:
    return load()


def test_every_script_is_recorded(record: Record) -> None:
    assert set(RECORDED) == set(record)


def test_answers_are_kafkas(server: OurServer, record: Record) -> None:
    found = []
    for room in ROOMS:
        for name, notes in play(server, f"{room}."):
            found += differences(name, record[name], notes)
            found += unneeded(name, record[name], notes)
    assert not found, "\n".join(found)
