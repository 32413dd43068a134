"""The task's own connection: what it hands out, what ends it, and that the reading goes on without it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from pyspark_tank.leader_connection import LeaderConnection
from pyspark_tank.offsets import OffsetRange
from pyspark_tank.options import parse_source_options
from tank_client.errors import OutOfBounds, ProtocolViolation, TankError
from tank_client.model import Address, Features, FetchedChunk
from tank_client.settings import ClientSettings
from tank_client.sync import Client
from tank_client.wire.data_operations import Want, to_store
from tank_protos.bundle import Codec, as_batch, encode
from tank_protos.bundle.arrow import ArrowColumns, value_array
from tank_protos.error_codes import ProduceError
from tank_protos.generated.tank import (
    ConsumeResponse,
    FetchedPartition,
    FetchedTopic,
    IdempotentPartitionResult,
    IdempotentProduceResponse,
    IdempotentTopicResult,
    Ping,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.spark.conftest import NewTopic
from tests.support.processes.broker_process import BrokerProcess

WANT = Want("topic", 0, 1, 1 << 20)
PING = b"".join(frame(Ping.ID, []))


def answer(chunk: bytes, *, request_id: int = 1, topic: str = "topic", flag: int = 0) -> bytes:
    entry = FetchedPartition(
        partition=0, flag=flag, base_sequence_number=1, high_water_mark=9, chunk_length=len(chunk),
        first_available=5,
    )  # fmt: skip
    topics = [FetchedTopic(name=topic, partition_count=1, partitions=[entry])]
    message = ConsumeResponse(request_id=request_id, topics=topics, chunks=memoryview(chunk))
    return b"".join(frame(ConsumeResponse.ID, message.encode()))


Served = Callable[[bytes], LeaderConnection]


@pytest.fixture
def served() -> Iterator[Served]:
    """A connection to somebody who sends these bytes and then closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[LeaderConnection] = []
    threads: list[threading.Thread] = []

    def send(stream: bytes) -> None:
        with listener.accept()[0] as accepted:
            accepted.sendall(stream)
            accepted.shutdown(socket.SHUT_WR)
            while accepted.recv(4096):
                pass

    def connect(stream: bytes) -> LeaderConnection:
        threads.append(threading.Thread(target=send, args=(stream,), daemon=True))
        threads[-1].start()
        address = Address("127.0.0.1", listener.getsockname()[1])
        server = Features(1000, features={"idempotent_produce": (0, 0)})
        opened.append(LeaderConnection(address, server, ClientSettings(max_frame_bytes=1 << 24)))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()
    for thread in threads:
        thread.join()
    listener.close()


def test_chunks_of_any_size_come_whole(served: Served) -> None:
    chunks = [bytes([number]) * size for number, size in enumerate((0, 1, 70_000, 3_000_000, 5))]
    stream = b"".join(PING + answer(chunk, request_id=at + 1) for at, chunk in enumerate(chunks))
    connection = served(stream)
    for chunk in chunks:
        connection.ask(WANT, 0)
        fetched = connection.answer()
        assert (fetched.base, fetched.high_water_mark) == (1, 9)
        assert bytes(fetched.chunk) == chunk


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (b"", ConnectionResetError),
        (PING, ConnectionResetError),
        (answer(b"cut")[:-1], ConnectionResetError),
        (b"\x02\xff\xff\xff\xff", ProtocolViolation),
        (answer(b"", request_id=2), ProtocolViolation),
        (answer(b"", topic="other"), ProtocolViolation),
        (b"".join(frame(1, [b"what is it?"])), ProtocolViolation),
        (b"".join(frame(ConsumeResponse.ID, [b"nothing"])), WireError),
        (answer(b"", flag=1), OutOfBounds),
    ],
)
def test_whatever_is_no_chunk_raises(served: Served, stream: bytes, error: type[Exception]) -> None:
    connection = served(stream)
    connection.ask(WANT, 0)
    with pytest.raises(error):
        connection.answer()


def acknowledgement(request_id: int, error: int = 0) -> bytes:
    partition = IdempotentPartitionResult(partition=0, error=error, first=1, last=1)
    topics = [IdempotentTopicResult(name="topic", partitions=[partition])]
    message = IdempotentProduceResponse(request_id=request_id, topics=topics)
    return b"".join(frame(IdempotentProduceResponse.ID, message.encode()))


BUNDLE = to_store("topic", 0, encode([b"content" * 50_000], timestamps=1, codec=Codec.NONE), producer_id=1)


def test_bundles_are_acknowledged_in_any_order(served: Served) -> None:
    connection = served(acknowledgement(2) + PING + acknowledgement(1) + acknowledgement(3))
    numbers = [connection.send(BUNDLE) for _ in range(3)]
    for number in numbers:
        connection.confirm(number)
    with pytest.raises(ConnectionResetError):
        connection.confirm(connection.send(BUNDLE))


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (b"", ConnectionResetError),
        (acknowledgement(1)[:-1], ConnectionResetError),
        (acknowledgement(3), ProtocolViolation),
        (answer(b""), ProtocolViolation),
        (acknowledgement(1) + acknowledgement(1), ProtocolViolation),
        (acknowledgement(2, ProduceError.OTHER_LEADER), TankError),
        (acknowledgement(2, ProduceError.STORAGE), TankError),
        (b"".join(frame(IdempotentProduceResponse.ID, [b"nothing"])), WireError),
    ],
)
def test_whatever_is_no_acknowledgement_raises(served: Served, stream: bytes, error: type[Exception]) -> None:
    connection = served(stream)
    numbers = [connection.send(BUNDLE) for _ in range(2)]
    with pytest.raises(error):
        for number in numbers:
            connection.confirm(number)


class JustValues:
    """Makes no batches for Spark: what comes is enough."""

    def batch(self, columns: ArrowColumns) -> pa.Array:
        return value_array(columns, pa.binary())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Want]:
    """What tasks ask of leaders, over connections of their own."""
    wants: list[Want] = []
    ask = LeaderConnection.ask

    def noted(connection: LeaderConnection, want: Want, max_wait_ms: int) -> None:
        ask(connection, want, max_wait_ms)
        wants.append(want)

    monkeypatch.setattr(LeaderConnection, "ask", noted)
    return wants


def test_a_task_reads_on_when_its_broker_was_started_again(
    new_topic: NewTopic, broker: BrokerProcess, asked: list[Want]
) -> None:
    from pyspark_tank.reader import RangeFetcher

    topic = new_topic()
    values = [os.urandom(500) for _ in range(400)]
    for begin in range(0, 400, 10):
        topic.add(values[begin : begin + 10])
    options = parse_source_options(
        {"servers": broker.address, "subscribe": topic.name, "fetchBytes": "4096"}, streaming=False
    )
    found: list[bytes] = []
    with Client(broker.address) as client:
        fetcher = RangeFetcher(client, options, OffsetRange(topic.name, 0, 1, 401))
        with closing(fetcher):
            for turn, values_of_batch in enumerate(fetcher.batches(JustValues())):  # type: ignore[arg-type]
                found += values_of_batch.to_pylist()
                if turn == 3:
                    assert asked[-1].number > len(found), "the leader has been asked for what comes next"
                    broker.kill()
                    broker.start()
    assert found == values


def test_what_does_not_come_from_a_leader_is_asked_of_the_client(
    new_topic: NewTopic, broker: BrokerProcess
) -> None:
    """A leader that is cut off from the others does not know it; the client asks them."""
    from pyspark_tank.reader import RangeFetcher

    asked: list[int] = []

    class Watched(Client):
        def fetch(
            self, topic: str, partition: int, number: int, *rest: int, takes_records: bool = False
        ) -> FetchedChunk:
            asked.append(number)
            return super().fetch(topic, partition, number, *rest, takes_records=takes_records)

    topic = new_topic()
    topic.add([b"there"])
    given = {
        "servers": broker.address,
        "subscribe": topic.name,
        "fetchTimeoutMs": "1500",
        "failOnDataLoss": "false",
    }
    with Watched(broker.address) as client:
        options = parse_source_options(given, streaming=False)
        with closing(RangeFetcher(client, options, OffsetRange(topic.name, 0, 1, 3))) as fetcher:
            batches = fetcher.batches(JustValues())  # type: ignore[arg-type]
            assert [batch.to_pylist() for batch in batches] == [[b"there"]]
    assert asked[0] == 1
    assert set(asked[1:]) == {2}


def test_a_task_asks_for_whole_bundles(new_topic: NewTopic, broker: BrokerProcess, asked: list[Want]) -> None:
    """What is cut off a chunk's last bundle would come twice."""
    from pyspark_tank.reader import RangeFetcher

    topic = new_topic()
    bundle = encode([os.urandom(5000)], timestamps=1, codec=Codec.NONE)
    for _ in range(20):
        topic.add_bundle(bundle)
    given = {"servers": broker.address, "subscribe": topic.name, "fetchBytes": "16384"}
    with Client(broker.address) as client:
        fetcher = RangeFetcher(
            client, parse_source_options(given, streaming=False), OffsetRange(topic.name, 0, 1, 21)
        )
        with closing(fetcher):
            batches = fetcher.batches(JustValues())  # type: ignore[arg-type]
            sizes = [len(next(batches))]  # the first chunk is the client's, of 16,384 bytes
            assert 3 * len(bundle) < asked[-1].max_bytes < 3 * len(bundle) + 100
            sizes += [len(batch) for batch in batches]
    assert sizes == [3, 3, 3, 3, 3, 3, 2]


def test_a_bundle_larger_than_a_fetch_does_not_make_the_next_fetches_large(
    new_topic: NewTopic, broker: BrokerProcess, asked: list[Want]
) -> None:
    from pyspark_tank.reader import RangeFetcher

    topic = new_topic()
    topic.add_bundle(encode([os.urandom(100_000)], timestamps=1, codec=Codec.NONE))
    topic.add_bundle(encode([b"small"], timestamps=1))
    given = {"servers": broker.address, "subscribe": topic.name, "fetchBytes": "4096"}
    with Client(broker.address) as client:
        fetcher = RangeFetcher(
            client, parse_source_options(given, streaming=False), OffsetRange(topic.name, 0, 1, 3)
        )
        with closing(fetcher):
            batches = fetcher.batches(JustValues())  # type: ignore[arg-type]
            assert len(next(batches)[0].as_py()) == 100_000
            assert asked[-1].max_bytes == 4096
            assert [batch.to_pylist() for batch in batches] == [[b"small"]]


def test_bundles_are_decoded_out_of_memory_that_is_used_again(served: Served) -> None:
    """What was decoded of one chunk stays when the next one is written over it."""
    from tank_protos.bundle.arrow import Chunk, decode_arrow

    first, second = (as_batch(encode([letter * 90] * 50, timestamps=1)) for letter in (b"a", b"b"))
    connection = served(answer(first) + answer(second, request_id=2))
    connection.ask(WANT, 0)
    batches = list(decode_arrow([Chunk(1, connection.answer().chunk)]))
    connection.ask(WANT, 0)
    batches += decode_arrow([Chunk(51, connection.answer().chunk)])
    assert [batch.column("value").to_pylist() for batch in batches] == [[b"a" * 90] * 50, [b"b" * 90] * 50]
