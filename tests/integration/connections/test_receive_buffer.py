"""One buffer takes what all connections of a tick bring: nothing in it is lost, torn or mixed up when it is
used again in the middle of a tick."""

from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tank_node.limits import KIB, Limits
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tank_protos.wire.framing import frame
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode

pytestmark = pytest.mark.integration

CLIENTS = 24
MIB = 1024 * KIB


def produce_frame(value: bytes, request_id: int) -> bytes:
    batch = memoryview(bundle.as_batch(bundle.encode([value], timestamps=1, codec=bundle.Codec.NONE)))
    request = ProduceRequest(2, request_id, "", 0, 0, [ProduceTopic("a", [ProducePartition(0, batch)])])
    return b"".join(frame(request.ID, request.encode()))


def stored(client: RawConnection, count: int) -> list[bytes]:
    """Read back over the wire."""
    values: list[bytes] = []
    while len(values) < count:
        number = len(values) + 1
        wanted = ConsumeRequest(2, 1, "", 0, 0, 0, [ConsumeTopic("a", [ConsumePartition(0, number, MIB)])])
        answer = ConsumeResponse.decode(client.ask(wanted.ID, wanted.encode()))
        for one in bundle.bundles(answer.chunks):
            values += [message.value for message in bundle.decode(one, 1)]
    return values


@pytest.mark.parametrize("in_flight", [3, 4096])
@pytest.mark.parametrize("most_bytes", [200, 3000, 6000])
def test_a_tick_that_brings_more_than_the_buffer_holds_stores_all_of_it(
    tmp_path: Path, in_flight: int, most_bytes: int
) -> None:
    """Requests shorter than a receive, cut by its end, and longer than one; with more of a client under way
    than may be, they are taken from what was kept."""
    limits = Limits(receive_bytes=4 * KIB, arena_bytes=16 * KIB, in_flight=in_flight)
    chance = Random(most_bytes)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        clients = [stack.enter_context(RawConnection(node.port)) for _ in range(CLIENTS)]
        sent: list[list[bytes]] = []
        frames: list[bytes] = []
        for _ in clients:
            values = [chance.randbytes(chance.randrange(10, most_bytes)) for _ in range(20)]
            sent.append(values)
            frames.append(b"".join(produce_frame(value, at) for at, value in enumerate(values)))

        def send_all() -> None:
            """On the loop: the next tick finds all of it."""
            for client, data in zip(clients, frames, strict=True):
                client.socket.sendall(data)

        node.on_loop(send_all)
        for client in clients:
            answers = [bytes(client.receive()[1]) for _ in range(20)]
            assert sorted(answers) == [number.to_bytes(4, "little") + b"\0" for number in range(20)]
        found = stored(clients[0], CLIENTS * 20)
        assert sorted(found) == sorted(value for values in sent for value in values)
        for values in sent:
            mine = set(values)
            assert [value for value in found if value in mine] == values, "in their order"
