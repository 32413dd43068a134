"""Long pushes: how much of a log they take, and that they are taken in one piece however they arrive."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tank_node.log.pushing import PIECE_RECORDS, READ_BYTES, PushReader
from tank_node.output import Output
from tank_node.purpose import Purpose
from tank_node.segment.errors import LogDamaged
from tank_node.segment.record import RECORD_BYTES
from tank_node.segment.segment import FileRange
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    ReplicaIdRequest,
)
from tank_protos.storage.stretch import PUSH_VERSION
from tank_protos.storage.stretch import Stretch as Pushed
from tank_protos.wire.framing import FrameReader, frame
from tests.support.nodes.broker_cell import TOPIC, BrokerCell
from tests.support.nodes.replicas import stretch_of
from tests.support.nodes.tank_server import tank_server
from tests.support.patience import patient
from tests.support.storage.logs import Folder, append
from tests.support.waiting import run

NOISE = Random(1).randbytes(16 * 1024)


# --- what is read ----------------------------------------------------------------------------------


def test_tiny_batches_end_a_piece_by_their_number() -> None:
    log = Folder().log()
    for _ in range(PIECE_RECORDS + 5):
        append(log, b"x", write=False)
    log.tail.write()
    reader = PushReader(log)
    first = reader.read(1, 1 << 20)
    assert first is not None
    assert (len(first.records), first.last) == (PIECE_RECORDS * RECORD_BYTES, PIECE_RECORDS)
    assert reader.read(1, 1 << 20) is first, "the next follower wants the same"
    rest = reader.read(first.last + 1, 1 << 20)
    assert rest is not None
    assert (len(rest.records), rest.last) == (5 * RECORD_BYTES, PIECE_RECORDS + 5)


def test_long_pieces_stay_in_their_file() -> None:
    log = Folder().log()
    for _ in range(3):
        append(log, NOISE)
    reader = PushReader(log)
    short, long = reader.read(1, READ_BYTES), reader.read(1, 4 * READ_BYTES)
    assert short is not None
    assert long is not None
    assert isinstance(short.batches, bytes)
    assert isinstance(long.batches, FileRange)
    assert long.batches.length > READ_BYTES >= len(short.batches)
    long.batches.file.release()


# --- how it arrives --------------------------------------------------------------------------------


def test_a_push_that_comes_in_parts_is_taken_whole_and_what_follows_at_once(tmp_path: Path) -> None:
    asyncio.run(_push_in_parts(tmp_path))


async def _push_in_parts(folder: Path) -> None:
    cell = BrokerCell(folder, 2)
    node = cell.nodes[1]
    server = tank_server(node.broker, asyncio.get_running_loop(), cell.limits, node.metrics)
    [(host, port)] = await server.start()
    cell.create(flush="replicated", leader=2)
    leader = Folder().log()
    for _ in range(20):
        append(leader, NOISE)
    long = stretch_of(leader, 1)
    append(leader, b"short")
    short = stretch_of(leader, 21)
    sent = []
    for request_id, pushed in ((1, long), (2, short)):
        content = b"".join(Pushed(10, 1, pushed.previous_epoch, 0, 1, *pushed[3:]).encode(0, pushed.start))
        entry = ProduceBasePartition(0, len(content), pushed.start, content)
        request = ProduceWithBaseSeqNumRequest(
            PUSH_VERSION, request_id, "", 0, 0, [ProduceBaseTopic(TOPIC, [entry])]
        )
        sent.append(b"".join(frame(request.ID, request.encode())))
    epochs = [cell.nodes[broker_id].controller.broker_epoch for broker_id in (1, 2)]
    opening = ReplicaIdRequest(2, "cell", epochs[1], 1, Purpose.LIVE, node.controller.peer_key)
    reader, writer = await asyncio.open_connection(host, port)
    writer.writelines(frame(opening.ID, opening.encode()))
    frames = FrameReader()
    answered: list[tuple[int, bytes]] = []

    async def listen() -> None:
        while data := await reader.read(65536):
            answered.extend((number, bytes(payload)) for number, payload in frames.feed(data))

    async def until(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patient(20)):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    listening = asyncio.create_task(listen())

    await until(lambda: ReplicaIdRequest.ID in dict(answered))
    (connection,) = server.connections.by_fd.values()
    assert len(sent[0]) > cell.limits.receive_bytes
    writer.write(sent[0][:100_000])
    await until(lambda: connection.pending)
    assert not node.log().written
    assert connection.large is None, "a broker's frame of this length needs no memory of its own"
    writer.write(sent[0][100_000:])
    await until(lambda: node.log().written == 20)
    assert not connection.pending
    writer.write(sent[1])
    await until(lambda: node.log().written == 21)
    await until(lambda: [number for number, _ in answered].count(PushAnswer.ID) == 2)
    writer.close()
    listening.cancel()
    await server.stop(0.1)
    cell.close()


# --- what can't be read when it is sent -------------------------------------------------------------


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """One broker, on a real disk, with messages for a long push."""
    cell = BrokerCell(tmp_path, 1)
    cell.create()
    for _ in range(8):
        append(cell.nodes[1].log(), NOISE)
    yield cell
    cell.close()


def long_piece(cell: BrokerCell) -> bytes | FileRange:
    piece = PushReader(cell.nodes[1].log()).read(1, 4 * READ_BYTES)
    assert piece is not None
    return piece.batches


def fails(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def sendfile(fd: int, file: int, position: int, count: int) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "sendfile", sendfile)


@pytest.mark.parametrize("parts", [2, 3], ids=["at once", "queued"])
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "unreadable"])
def test_what_cannot_be_read_is_counted_and_said_and_read_by_its_partition_from_then_on(
    cell: BrokerCell,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    parts: int,
    is_cut: bool,
) -> None:
    lost = long_piece(cell)
    assert isinstance(lost, FileRange)
    if is_cut:
        os.truncate(lost.file.path, 0)
    else:
        fails(monkeypatch, errno.EIO)
    out: list[Output] = [b"head", lost, b"tail"]
    assert run(_send(cell, out[:parts])) == {"chunk_lost": 1}
    (said,) = caplog.messages
    assert lost.file.path in said
    assert ("shorter" if is_cut else os.strerror(errno.EIO)) in said
    assert not lost.file.pins
    if is_cut:
        with pytest.raises(LogDamaged):
            long_piece(cell)
    else:
        assert isinstance(long_piece(cell), bytes), "an error meets its partition alone"


@pytest.mark.parametrize("error", [errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ECONNRESET])
def test_a_socket_that_breaks_is_no_fault_of_the_file(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    fails(monkeypatch, error)
    assert run(_send(cell, [b"head", long_piece(cell)])) == {}
    assert not caplog.messages
    batches = long_piece(cell)
    assert isinstance(batches, FileRange)
    batches.file.release()


async def _send(cell: BrokerCell, out: list[Output]) -> dict[str, int]:
    """Sends this to a client; why its connection was closed, and how often."""
    node = cell.nodes[1]
    server = tank_server(node.broker, asyncio.get_running_loop(), cell.limits, node.metrics)
    reader, writer = await asyncio.open_connection(*(await server.start())[0])
    await reader.read(1)  # the ping
    (connection,) = server.connections.by_fd.values()
    connection.session.out += out
    connection.session.has_chunks = True
    connection.session.ready()
    await reader.read()
    closed = dict(node.metrics.closed)
    writer.close()
    await server.stop(0.1)
    return closed
