"""Metadata under kill -9 at any moment: what was acknowledged is there; the rest is whole or not there."""

import random
import threading
import time
from pathlib import Path

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    PositionToCommit,
)
from tank_protos.wire.names import INTERNAL_TOPICS
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess, running_broker

pytestmark = pytest.mark.integration

KILLS = 6


class Churn(threading.Thread):
    """Creates and deletes topics and commits a position, one after another, until the broker is gone."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.prefix = name
        self.exist: set[str] = set()
        self.gone: set[str] = set()
        self.position = 0
        self.unsure: set[str] = set()
        """What was asked for when the broker went."""
        self.problem: AssertionError | None = None

    def run(self) -> None:
        try:
            with RawConnection(self.port) as connection:
                for number in range(100_000):
                    self.step(connection, f"{self.prefix}-{number}", delete=number % 3 == 2)
        except OSError:
            pass
        except AssertionError as problem:
            self.problem = problem

    def step(self, connection: RawConnection, name: str, *, delete: bool) -> None:
        self.unsure.add(name)
        create = CreateTopicsRequest(request_id=1, name=name, partitions=2)
        created = CreateTopicsResponse.decode(connection.ask(create.ID, create.encode()))
        assert created.error == ErrorCode.NONE, created.message
        self.exist.add(name)
        if delete:
            remove = DeleteTopicRequest(request_id=1, name=name)
            answer = connection.ask(remove.ID, remove.encode())
            assert DeleteTopicResponse.decode(answer).error == ErrorCode.NONE
            self.exist.remove(name)
            self.gone.add(name)
        self.unsure.remove(name)
        self.commit(connection, self.position + 1)
        self.position += 1

    def commit(self, connection: RawConnection, number: int) -> None:
        position = PositionToCommit(topic="kept", partition=0, sequence_number=number)
        request = CommitPositionsRequest(request_id=1, group=self.prefix, positions=[position])
        answer = CommitPositionsResponse.decode(connection.ask(request.ID, request.encode()))
        assert answer.results[0].error == ErrorCode.NONE


def topics_of(broker: BrokerProcess) -> set[str]:
    request = DescribeTopicsRequest(request_id=1)
    with RawConnection(broker.port) as connection:
        answer = DescribeTopicsResponse.decode(connection.ask(request.ID, request.encode()))
    found = {
        topic.name: len(topic.partitions) for topic in answer.topics if topic.name not in INTERNAL_TOPICS
    }
    assert all(count == 2 for name, count in found.items() if name != "kept")
    return set(found)


def position_of(broker: BrokerProcess, group: str) -> int:
    request = FetchPositionsRequest(request_id=1, group=group)
    with RawConnection(broker.port) as connection:
        answer = FetchPositionsResponse.decode(connection.ask(request.ID, request.encode()))
    return answer.positions[0].sequence_number if answer.positions else 0


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    chance = random.Random(7)
    with running_broker(tmp_path) as broker:
        create = CreateTopicsRequest(request_id=1, name="kept", partitions=1)
        with RawConnection(broker.port) as connection:
            connection.ask(create.ID, create.encode())
        writers: list[Churn] = []
        for kill in range(KILLS):
            now = [Churn(broker.port, f"w-{kill}-{number}") for number in range(4)]
            for writer in now:
                writer.start()
            time.sleep(chance.uniform(0.02, 0.4))
            broker.kill()
            for writer in now:
                writer.join(patient(20))
                assert not writer.is_alive()
                assert writer.problem is None
            writers += now
            broker.start()
            found = topics_of(broker)
            for writer in writers:
                assert writer.exist <= found | writer.unsure
                assert not writer.gone & found
                assert position_of(broker, writer.prefix) in (writer.position, writer.position + 1)
        assert sum(writer.position for writer in writers) > KILLS, "something was written between the kills"
