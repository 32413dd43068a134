"""A node without a controller and without HTTP, as a process.

`python -m tests.support.nodes.bare_node PORT FOLDER [LIMIT=NUMBER ...]`

On SIGUSR1 it prints its counters and levels as a line of JSON.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.clock import SystemClock
from tank_node.disk import OsDisk
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.loop import TickLoop
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.tank_server import tank_server


async def serve(port: int, folder: str, **limited: int) -> None:
    loop = asyncio.get_running_loop()
    disk, clock, limits, metrics = OsDisk(), SystemClock(), Limits(**limited), Metrics()
    data_folder = DataFolder.open(folder, disk, clock)

    def post(call: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(call)

    flusher = Flusher(disk, post)
    broker = Broker(data_folder, InstantController(), flusher, clock, limits, metrics)
    broker.open()
    server = tank_server(broker, loop, limits, metrics, port)
    [(_, bound)] = await server.start()
    print(f"listening on {bound}", flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, _print_counters, metrics)
    await stop.wait()
    await server.stop(2.0)
    broker.close()


def _print_counters(metrics: Metrics) -> None:
    shown = {
        "refused": metrics.refused,
        "closed": metrics.closed,
        "opened": metrics.connections_opened,
        "connections": metrics.connections,
        "held_bytes": metrics.held_bytes,
        "waiting": metrics.waiting,
    }
    print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    limited = {name: int(number) for name, number in (word.split("=") for word in sys.argv[3:])}
    with asyncio.Runner(loop_factory=TickLoop) as runner:
        runner.run(serve(int(sys.argv[1]), sys.argv[2], **limited))
