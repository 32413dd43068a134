"""A leader's connections to its followers: which process is at the other end, catching up beside live pushes,
silence, and real sockets."""

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tank_node.cluster.view import BrokerView
from tank_node.limits import Limits
from tank_node.partition.leader import PartitionLeader
from tank_node.peers.outbound import PushSession
from tank_node.peers.replicator import Replicator
from tank_node.purpose import Purpose
from tank_node.server.dialer import ServerDialer
from tank_node.server.loop import TickLoop
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ReplicaIdRequest,
)
from tank_protos.resolver import Resolver
from tank_protos.wire.framing import FrameReader, frame
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import TOPIC, BrokerCell, PipeDialer, PipeEnd, Told
from tests.support.nodes.filled_topics import MIB, fill
from tests.support.nodes.leading import append, errors, members
from tests.support.nodes.replicas import assert_copies
from tests.support.nodes.tank_server import tank_server
from tests.support.patience import patient
from tests.support.waiting import comes


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3, Limits(catch_up_from_bytes=MIB))
    yield cell
    cell.close()


def purposes(cell: BrokerCell, leader: int, follower: int) -> list[Purpose]:
    """What the open connections between these two are for."""
    return [
        near.session.identity.purpose
        for one, other, near, _ in cell.pipes
        if (one, other) == (leader, follower)
        and isinstance(near.session, PushSession)
        and near.session.is_open
    ]


def test_one_connection_for_all_partitions_of_a_follower(cell: BrokerCell) -> None:
    cell.create(partitions=3)
    cell.create("b", partitions=2)
    cell.run(300)
    assert len(cell.pipes) == 2
    assert purposes(cell, 1, 2) == purposes(cell, 1, 3) == [Purpose.LIVE]


def test_a_replica_far_behind_catches_up_on_a_connection_of_its_own(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.create("live", flush="replicated")
    cell.change(in_sync=(1, 2))
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    cell.run(200)
    fill(cell, 4)
    live = cell.nodes[1].broker.topics["live"].partitions[0]
    cell.connect(1, 3)
    seen: set[tuple[Purpose, ...]] = set()
    for _ in range(80):
        cell.run(50)
        seen.add(tuple(purposes(cell, 1, 3)))
        if cell.nodes[3].log().last == 4:
            break
    assert (Purpose.LIVE, Purpose.CATCH_UP) in seen
    cell.judge = cell.accept
    cell.run(1000)
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())
    assert live.leadership is not None
    assert purposes(cell, 1, 3) == [Purpose.LIVE], "all have caught up"


def test_a_member_is_not_sent_to_catch_up(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    fill(cell, 3)
    cell.disconnect(1, 2)
    cell.stop(2)
    cell.start(2)
    cell.connect(1, 2)
    for _ in range(20):
        cell.run(50)
        assert purposes(cell, 1, 2) in ([], [Purpose.LIVE])


def test_nothing_is_pushed_to_another_process_than_the_one_that_was_meant(cell: BrokerCell) -> None:
    cell.nodes[1].controller.view.brokers[2].epoch += 7
    cell.create(flush="replicated")
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(1000)
    assert not purposes(cell, 1, 2)
    assert cell.nodes[2].log().last == 0
    assert cell.nodes[1].refused
    cell.nodes[1].controller.view.brokers[2].epoch -= 7
    cell.run(3000)
    assert purposes(cell, 1, 2) == [Purpose.LIVE]


def test_nothing_more_is_taken_from_a_process_that_another_one_has_replaced(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(300)
    (far,) = [pipe[3] for pipe in cell.pipes if pipe[:2] == (1, 2)]
    far.session.hang_up = lambda reason: None  # it is closed later
    append(cell.nodes[1], b"x", Told(), 0)
    cell.pipes[0][2].send()
    cell.nodes[2].controller.view.brokers[1].epoch += 7
    for listener in cell.nodes[2].controller.tell_brokers:
        listener()
    far.receive()
    assert far.closed
    assert cell.nodes[2].log().last == 0


@pytest.mark.parametrize("what", ["key", "cluster"])
def test_nothing_is_pushed_outside_of_the_cluster(cell: BrokerCell, what: str) -> None:
    if what == "key":
        cell.nodes[2].controller.peer_key = b"another cluster!"
    else:
        cell.nodes[2].controller.view.cluster_id = "another"
    cell.create(flush="replicated")
    cell.run(1000)
    assert not purposes(cell, 1, 2)
    assert cell.nodes[2].refused


def test_a_follower_that_says_nothing_is_dialed_again(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.create(flush="replicated")
    cell.run(300)
    silent = next(pipe for pipe in cell.pipes if pipe[1] == 2)
    receive = PipeEnd.receive
    monkeypatch.setattr(PipeEnd, "receive", lambda end: None if end in silent[2:] else receive(end))
    cell.run(7200)
    assert silent[2].closed
    cell.run(500)
    assert purposes(cell, 1, 2) == [Purpose.LIVE]


def test_what_goes_wrong_with_one_follower_or_partition_does_not_hurt_the_others(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.create("b", flush="replicated")
    cell.run(300)
    (line,) = [pipe[2].session.line for pipe in cell.pipes if pipe[:2] == (1, 2)]  # type: ignore[attr-defined]
    line.news[None] = None
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    (third,) = [pipe[2].session for pipe in cell.pipes if pipe[:2] == (1, 3)]
    assert third.out, "it is pushed to in the same tick"
    cell.run(1000)
    assert errors(told) == [ErrorCode.NONE], "the connection was made anew"
    (line,) = [pipe[2].session.line for pipe in cell.pipes if pipe[:2] == (1, 2)]  # type: ignore[attr-defined]
    line.paused[None] = None
    cell.run(1000)
    assert purposes(cell, 1, 2) == [Purpose.LIVE], "made anew again, for a beat that failed"
    leadership = cell.nodes[1].partition().leadership
    assert isinstance(leadership, PartitionLeader)
    leadership.in_sync.proposed = ((1, 101),)  # which nobody has sent
    cell.nodes[1].broker.roles.pushers.watch(leadership)
    other = cell.nodes[1].partition("b").leadership
    assert isinstance(other, PartitionLeader)
    cell.disconnect(1, 3)
    cell.nodes[1].broker.begin_tick()
    cell.nodes[1].partition("b").append(memoryview(batch_of(b"x")), Told(), 1)
    cell.nodes[1].broker.end_tick()
    cell.run(4000)
    assert cell.topics["b"].partitions[0].in_sync == (1, 2)


def test_after_a_freeze_followers_are_heard_before_they_are_judged(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(300)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.step()
    assert cell.nodes[2].log().last == 1, "its answer is on the way"
    lines = [pipe[2] for pipe in cell.pipes]
    cell.clock.pass_ms(10_000)
    cell.judge = lambda node: None
    cell.run(1000)
    assert not cell.nodes[1].controller.proposed
    assert not any(line.closed for line in lines)
    assert cell.nodes[1].partition().high_water_mark == 1


def test_one_whose_beats_are_always_late_judges_all_the_same(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(300)
    cell.disconnect(1, 3)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(16_000, 2000)
    assert members(cell) == (1, 2)


def test_pauses_between_attempts_grow_and_end_when_a_broker_registers(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.cut |= {(1, 2)}
    cell.stop(2)
    attempts = []
    dial = PipeDialer.dial

    def noted(dialer: PipeDialer, host: str, port: int, session: Session) -> None:
        if port == 2:
            attempts.append(cell.clock.monotonic_ms())
        dial(dialer, host, port, session)

    monkeypatch.setattr(PipeDialer, "dial", noted)
    cell.run(10_000)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[-1] <= 2050
    assert len(attempts) < 15
    assert sorted(pauses) == pauses
    cell.cut.clear()
    cell.start(2)
    cell.run(200)
    assert purposes(cell, 1, 2) == [Purpose.LIVE]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_over_real_sockets(tmp_path: Path, host: str) -> None:
    asyncio.run(_over_real_sockets(tmp_path, host))


async def _over_real_sockets(folder: Path, host: str) -> None:
    loop = asyncio.get_running_loop()
    cell = BrokerCell(folder, 2)
    servers = {}
    for broker_id, node in cell.nodes.items():
        server = tank_server(node.broker, loop, cell.limits, node.metrics)
        node.broker.roles.pushers = Replicator(node.broker, ServerDialer(server.connections, loop))
        [(_, port)] = await server.start()
        servers[broker_id] = server
        for other in cell.nodes.values():
            epoch = node.controller.broker_epoch
            other.controller.view.brokers[broker_id] = BrokerView(broker_id, epoch, host, port, "")
    cell.create(flush="replicated")
    told = Told()
    append(
        cell.nodes[1], random.Random(1).randbytes(500_000), told, 0
    )  # larger than what is read into memory to be pushed
    append(cell.nodes[1], b"y", told, 1)

    async with asyncio.timeout(patient(20)):
        while len(told.told) < 2 or cell.nodes[2].partition().high_water_mark < 2:
            await asyncio.sleep(0.01)
            cell.clock.pass_ms(50)
    assert errors(told) == [0, 0]
    assert_copies(cell.nodes[1].log(), cell.nodes[2].log())
    await servers[2].stop(0.1)
    for _ in range(200):  # nobody is there any more: attempts fail, and are made again
        await asyncio.sleep(0.01)
        cell.clock.pass_ms(50)
        if cell.nodes[1].metrics.connections == 0:
            break
    await servers[1].stop(0.1)
    cell.close()


def test_a_leader_that_stops_hears_its_followers_until_its_producers_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_stop_a_leader(tmp_path, monkeypatch))


async def _stop_a_leader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    readers: dict[int, Callable[[], None]] = {}

    def add_reader(number: int, ready: Callable[[], None]) -> None:
        readers[number] = ready
        add_to_loop(number, ready)

    add_to_loop: Any = loop.add_reader
    monkeypatch.setattr(loop, "add_reader", add_reader)
    cell = BrokerCell(folder, 2)
    servers = {}
    for broker_id, node in cell.nodes.items():
        servers[broker_id] = tank_server(node.broker, loop, cell.limits, node.metrics)
        node.broker.roles.pushers = Replicator(
            node.broker, ServerDialer(servers[broker_id].connections, loop)
        )
        [(host, port)] = await servers[broker_id].start()
        for other in cell.nodes.values():
            epoch = node.controller.broker_epoch
            other.controller.view.brokers[broker_id] = BrokerView(broker_id, epoch, host, port, "")
    frozen, wake = readers.popitem()  # of broker 2, which was started last
    cell.create(flush="replicated")
    leader, told = cell.nodes[1], Told()
    append(leader, b"before", told, 0)

    async def until(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patient(20)):
            while not condition():
                await asyncio.sleep(0.01)
                cell.clock.pass_ms(10)

    await until(lambda: told.told)
    loop.remove_reader(frozen)
    reader, writer = await asyncio.open_connection("127.0.0.1", leader.controller.view.brokers[1].port)
    request = ProduceRequest(
        2, 7, "", 0, 0, [ProduceTopic(TOPIC, [ProducePartition(0, memoryview(batch_of(b"x")))])]
    )
    writer.writelines(frame(request.ID, request.encode()))
    await until(lambda: leader.log().last == 2)
    stopping = asyncio.ensure_future(servers[1].stop(20))
    await asyncio.sleep(0.05)
    loop.add_reader(frozen, wake)
    answered = [payload for _, payload in FrameReader().feed(await reader.read())][-1]
    assert answered[4] == ErrorCode.NONE
    await stopping
    writer.close()
    await servers[2].stop(0.1)
    cell.close()


def test_what_was_asked_before_the_opening_is_answered_before_it(tmp_path: Path) -> None:
    asyncio.run(_ask_and_open_at_once(tmp_path))


async def _ask_and_open_at_once(folder: Path) -> None:
    """A chunk is on its way out when the connection becomes a leader's."""
    cell = BrokerCell(folder, 1)
    node = cell.nodes[1]
    server = tank_server(node.broker, asyncio.get_running_loop(), cell.limits, node.metrics)
    [(host, port)] = await server.start()
    cell.create(flush="replicated")
    append(node, b"content", Told(), 0)
    asked = ConsumeRequest(topics=[ConsumeTopic(TOPIC, [ConsumePartition(0, 1, 1000)])])
    epoch = node.controller.broker_epoch
    opening = ReplicaIdRequest(1, "cell", epoch, 1, Purpose.LIVE, node.controller.peer_key)
    reader, writer = await asyncio.open_connection(host, port)
    writer.writelines([*frame(asked.ID, asked.encode()), *frame(opening.ID, opening.encode())])
    frames, answered = FrameReader(), []
    async with asyncio.timeout(patient(20)):
        while ReplicaIdRequest.ID not in answered:
            answered += [number for number, _ in frames.feed(await reader.read(65536))]
    assert answered == [3, ConsumeRequest.ID, ReplicaIdRequest.ID]
    writer.close()
    await server.stop(0.1)
    cell.close()


def test_a_broker_whose_name_is_found_too_late_is_not_connected(tmp_path: Path) -> None:
    """The server has stopped: nobody would serve the connection."""
    with asyncio.Runner(loop_factory=TickLoop) as runner:
        runner.run(_dial_late(tmp_path))


async def _dial_late(folder: Path) -> None:
    cell = BrokerCell(folder, 1)
    node = cell.nodes[1]
    server = tank_server(node.broker, asyncio.get_running_loop(), cell.limits, node.metrics)
    await server.start()
    await server.stop(0.1)
    session = Session()
    with socket.create_server(("127.0.0.1", 0)) as other:
        ServerDialer(server.connections, asyncio.get_running_loop()).dial(
            "127.0.0.1", other.getsockname()[1], session
        )
    assert session.closed
    assert not server.connections.by_fd
    cell.close()


def test_a_broker_is_dialed_at_its_last_address_while_the_name_service_is_away(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=TickLoop) as runner:
        runner.run(_dial_by_name(tmp_path))


async def _dial_by_name(folder: Path) -> None:
    answers: list[int | None] = [None, socket.EAI_AGAIN, socket.EAI_NONAME]

    async def look_up(host: str) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        failing = answers.pop(0)
        if failing is not None:
            raise socket.gaierror(failing, "as the test wants it")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    cell = BrokerCell(folder, 1)
    node = cell.nodes[1]
    server = tank_server(node.broker, asyncio.get_running_loop(), cell.limits, node.metrics)
    await server.start()
    resolver = Resolver(look_up, lambda: 0.0, logging.getLogger(__name__))
    dialer = ServerDialer(server.connections, asyncio.get_running_loop(), resolver)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        port = other.getsockname()[1]
        for _ in range(2):  # the name service answers, then it is away
            dialer.dial("broker-2.test", port, Session())
            async with asyncio.timeout(patient(10)):
                accepted, _ = await asyncio.get_running_loop().sock_accept(other)
            accepted.close()
        gone = Session()
        dialer.dial("broker-2.test", port, gone)  # and then it says that there is no such name
        await comes(lambda: gone.closed)
    assert not answers
    await server.stop(0.1)
    cell.close()
