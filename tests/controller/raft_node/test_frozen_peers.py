"""A controller whose process is frozen keeps its connections: the others are to find out without them."""

import asyncio
import signal
import subprocess
import sys

import pytest

from tank_controller.raft.messages import Heartbeat, NodeId, RaftMessage
from tank_controller.raft_node.peers import Peers
from tests.support.waiting import comes

PING_S = 40.0
"""Not to be patient with: gRPC's own limit for a ping, which counts where none is set, is 60 s."""
CONTROLLER = """
import asyncio, grpc.aio
from tank_controller.raft_node.peers import SERVER_OPTIONS
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersServicer, add_ControllersServicer_to_server

class Controller(ControllersServicer):
    async def Messages(self, requests, context):
        async for _ in requests:
            pass
        return pb.MessagesEnd()

async def serve():
    server = grpc.aio.server(options=SERVER_OPTIONS)
    add_ControllersServicer_to_server(Controller(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()

asyncio.run(serve())
"""


@pytest.mark.thorough
def test_a_frozen_controller_is_not_reached_and_one_that_goes_on_is() -> None:
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())

    async def story() -> None:
        peers = Peers({1: "127.0.0.1:1", 2: f"127.0.0.1:{port}"}, 1)
        peers.start()
        heartbeat = RaftMessage("c", NodeId(1, b"a"), NodeId(2, b"b"), 1, Heartbeat(0, 0))

        async def beat() -> None:
            while True:
                peers.send([heartbeat])
                await asyncio.sleep(0.1)

        beating = asyncio.create_task(beat())
        try:
            await comes(lambda: peers.reaches(2))
            process.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(PING_S):
                while peers.reaches(2):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.05)
            process.send_signal(signal.SIGCONT)
            await comes(lambda: peers.reaches(2))
        finally:
            beating.cancel()
            await peers.stop()

    try:
        asyncio.run(story())
    finally:
        process.kill()
        process.communicate()
