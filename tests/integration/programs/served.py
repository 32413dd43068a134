"""`tank serve` as a process, and raw requests to it."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess


def serve(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`tank serve` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "tank_cli.main", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=patient(30),
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        check=False,
    )


def started(*arguments: str, environment: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], str]:
    """A process and the line that it says when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tank_cli.main", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def create_topic(broker: BrokerProcess, name: str, partitions: int = 1, config: bytes = b"") -> int:
    request = CreateTopicRequest(request_id=1, topic=name, partitions=partitions, config=config)
    with RawConnection(broker.port) as connection:
        return CreateTopicResponse.decode(connection.ask(request.ID, request.encode())).error


def produce_request(topic: str, values: list[bytes]) -> ProduceRequest:
    batch = bundle.as_batch(bundle.encode(values, timestamps=1))
    partition = ProducePartition(partition=0, bundle=memoryview(batch))
    return ProduceRequest(
        client_version=2, request_id=7, topics=[ProduceTopic(name=topic, partitions=[partition])]
    )


def produce(connection: RawConnection, topic: str, values: list[bytes]) -> int:
    request = produce_request(topic, values)
    return ProduceResponse.decode(connection.ask(request.ID, request.encode())).results[0].error


def stored(broker: BrokerProcess, topic: str) -> list[bytes]:
    """The values of the topic's partition 0, read to its end."""
    values: list[bytes] = []
    with RawConnection(broker.port) as connection:
        while True:
            partition = ConsumePartition(partition=0, sequence_number=len(values) + 1, fetch_size=1 << 20)
            request = ConsumeRequest(
                client_version=2, request_id=9, topics=[ConsumeTopic(name=topic, partitions=[partition])]
            )
            answer = ConsumeResponse.decode(connection.ask(request.ID, request.encode()))
            if len(answer.chunks) == 0:
                return values
            number = answer.topics[0].partitions[0].base_sequence_number
            for each in bundle.bundles(memoryview(answer.chunks)):
                for message in bundle.decode(each, number):
                    values += [message.value] * (message.sequence_number == len(values) + 1)
                    number = message.sequence_number + 1


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=patient(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def write_one(broker: BrokerProcess, topic: str) -> None:
    with RawConnection(broker.port) as connection:
        assert produce(connection, topic, [b"one"]) == 0


def delete_topic(broker: BrokerProcess, name: str) -> None:
    request = DeleteTopicRequest(request_id=1, name=name)
    with RawConnection(broker.port) as connection:
        answer = DeleteTopicResponse.decode(connection.ask(request.ID, request.encode()))
    assert answer.error == ErrorCode.NONE, answer.message
