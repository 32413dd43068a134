"""`python -m tests.repository.ways`: how many files an event goes through, measured on the running code.

For each way one event is run under a profile hook, in plain Python: a compiled function calls no hook.
*Files* are the product's files of which a function ran; *classes* the classes of these functions (a module
counts as one for functions of its own); *moves* the calls from a function of one file to one of another. The
events: one message of 100 bytes, one partition. `--files` names the files, in the order of their first call.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.loop import TickLoop
from tank_protos import bundle
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import TOPIC, BrokerCell
from tests.support.nodes.tank_server import tank_server

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = tuple(
    f"{ROOT / room}{os.sep}" for room in ("node", "controller", "protos", "client", "spark")
)


@dataclass(slots=True)
class Way:
    """What one event went through."""

    files: dict[str, None] = field(default_factory=dict)
    """In the order in which they were entered, from the root of the repository."""
    classes: set[tuple[str, str]] = field(default_factory=set)
    moves: int = 0

    def note(self, called: FrameType, event: str, argument: object) -> None:
        """The hook: sees every call."""
        name = called.f_code.co_filename
        if event != "call" or not name.startswith(PRODUCT):
            return
        caller = called.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PRODUCT):
            caller = caller.f_back
        self.moves += caller is None or caller.f_code.co_filename != name
        self.files[str(Path(name).relative_to(ROOT))] = None
        holder, _, _ = called.f_code.co_qualname.partition("<locals>")
        self.classes.add((name, holder.split(".")[0] if "." in holder.rstrip(".") else ""))


def traced(event: Callable[[], object]) -> Way:
    """Runs an event under the hook."""
    way = Way()
    sys.setprofile(way.note)
    try:
        event()
    finally:
        sys.setprofile(None)
    return way


def of_one_broker(folder: Path) -> dict[str, Way]:
    """Produce and consume at a broker alone, from the socket's readiness to the answer in the socket."""

    loop = TickLoop()
    with ExitStack() as stack:
        node = stack.enter_context(BenchNode(folder))
        node.controller.add("a", 1, flush="replicated")
        quiet = Limits(housekeeping_ms=60_000, maintenance_ms=60_000, scrub_ms=60_000)
        server = tank_server(node.broker, loop, quiet, Metrics())
        [address] = loop.run_until_complete(server.start())

        def turn() -> None:
            loop.run_until_complete(asyncio.sleep(0.05))

        def ask(client: socket.socket, request: bytes) -> Way:
            client.sendall(request)
            loop.call_soon(loop.stop)
            way = traced(loop.run_forever)  # once around
            assert client.recv(1 << 16)
            return way

        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(2)]
        turn()
        for client in clients:
            client.recv(1 << 16)  # the ping

        def consume(number: int) -> bytes:
            topics = [ConsumeTopic("a", [ConsumePartition(0, number, 1 << 20)])]
            return framed(ConsumeRequest(2, 1, "", 0, 0, 0, topics))

        warm, cold = clients
        ask(warm, produce_request())
        ways = {"produce, one broker, as it was learned": ask(warm, produce_request())}
        ways = {"produce, one broker": ask(cold, produce_request())} | ways
        ways["consume"] = ask(cold, consume(1))
        loop.run_until_complete(server.stop(0.1))
    loop.close()
    return ways


def of_three_brokers(folder: Path) -> dict[str, Way]:
    """The way of a message from its leader to its followers and back, and a change of leader."""
    cell = BrokerCell(folder, 3)
    cell.create(flush="replicated")
    cell.run(300)
    leader = cell.nodes[1]
    client = leader.client()

    request = produce_request()

    def append() -> None:
        leader.broker.begin_tick()
        client.feed(request)

    append()
    cell.run(300)
    ways = {"leader of three, from the request to both pushes queued": traced(append)}
    pipes = [pipe for pipe in cell.pipes if pipe[0] == 1]
    for _, _, near, _ in pipes:
        near.send()
    ways["follower, from a push to its answer queued"] = traced(pipes[0][3].receive)
    pipes[1][3].receive()
    for _, _, _, far in pipes:
        far.send()
    pipes[0][2].receive()
    ways["leader, from the last answer to the producer's answer queued"] = traced(pipes[1][2].receive)
    assert client.answers()
    cell.run(300)
    ways["another leader in the view, which connects first"] = change_of_leader(cell, 2)
    cell.create("b", leader=3, flush="replicated")
    cell.run(300)
    ways["another leader in the view, which is connected"] = change_of_leader(cell, 3)
    cell.run(300)
    cell.close()
    return ways


def change_of_leader(cell: BrokerCell, leader: int) -> Way:
    """Each of three brokers gets the controllers' update with another leader of a partition."""
    topic = cell.topics[TOPIC]
    before = topic.partitions[0]
    partition = pb.Partition(
        replicas=before.replicas,
        in_sync=before.in_sync,
        leader=leader,
        leader_epoch=before.leader_epoch + 1,
        partition_epoch=before.partition_epoch + 1,
    )
    changed = [pb.ChangedPartitions(topic_id=topic.topic_id, partitions=[partition])]
    controllers = [node.controller for node in cell.nodes.values()]
    deltas = [pb.Delta(index=each.view.index + 1, changed=changed) for each in controllers]

    def update() -> None:
        for controller, delta in zip(controllers, deltas, strict=True):
            controller.update(delta)

    way = traced(update)
    shown = controllers[0].view.topic(TOPIC)
    assert shown is not None
    cell.topics[TOPIC] = shown
    return way


def produce_request() -> bytes:
    """One message of 100 bytes."""
    batch = memoryview(bundle.as_batch(bundle.encode([b"x" * 100], timestamps=1)))
    return framed(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [ProducePartition(0, batch)])]))


def framed(message: Message) -> bytes:
    """A message with its head."""
    return b"".join(frame(message.ID, message.encode()))


def ways() -> dict[str, Way]:
    """All of them. Call it where the kernel is plain."""
    with tempfile.TemporaryDirectory() as folder:
        return of_one_broker(Path(folder) / "one") | of_three_brokers(Path(folder) / "three")


def main() -> None:
    if os.environ.get("TANK_KERNEL") != "pure":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.repository.ways", *sys.argv[1:]],
            {**os.environ, "TANK_KERNEL": "pure"},
        )
    print(f"{'way':62} {'files':>5} {'classes':>7} {'moves':>5}")
    for name, way in ways().items():
        print(f"{name:62} {len(way.files):5} {len(way.classes):7} {way.moves:5}")
        if "--files" in sys.argv[1:]:
            print("".join(f"    {file}\n" for file in way.files), end="")


if __name__ == "__main__":
    main()
