"""A connection to a broker that leads, whose answers lie: wrong ids and lengths, halves, too early, twice."""

from collections import Counter
from functools import cache
from random import Random

from tank_node.broker.forwarding import Forwarded
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.peers.forward_session import ForwardSession
from tank_node.peers.identity import PeerIdentity
from tank_node.purpose import Purpose
from tank_node.tank.dispatch import open_session
from tank_node.tank.session import TankSession
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.fuzz import mutate
from tests.fuzz.session_node import ROOMY, Node

FRAMES = 8
_OURS = PeerIdentity("cluster", bytes(16), 1, 1, 2, 1, Purpose.REQUESTS)
_THEIRS = PeerIdentity("cluster", bytes(16), 2, 1, 1, 1, Purpose.REQUESTS)


class _Request(Forwarded):
    """Counts how often it was told its end."""

    ends = 0

    def answered(self, payload: memoryview) -> None:
        self.ends += 1

    def failed(self, *, sent: bool) -> None:
        self.ends += 1


@cache
def _sender() -> TankSession:
    """A client that can be held back."""
    return open_session(Node(Random(0), ROOMY).broker)


def conversation(chance: Random) -> Counter[str]:
    """Requests go out, and FRAMES frames come back, some honest. Each request ends once, nothing stays
    pending, and only a WireError is raised."""
    now_ms = 0
    session = ForwardSession(_OURS, Limits(), Metrics(), now_ms=lambda: now_ms, ended=lambda _: None)
    requests = []
    refused: Counter[str] = Counter()
    for turn in range(FRAMES):
        for _ in range(chance.randrange(3)):
            head = bytes([chance.choice((1, 2))]) + chance.randrange(10, 60).to_bytes(4, "little")
            request = _Request(bytearray(head + bytes(20)), now_ms + chance.randrange(1, 9))
            requests.append(request)
            session.forward(request, _sender())
        now_ms += chance.randrange(3)
        session.expire()
        received = bytearray(_answer(chance, is_first=turn == 0))
        try:
            session.receive(received, memoryview(received), 0, len(received))
        except WireError as error:
            refused[error.reason] += 1
            break
        assert all(request.ends <= 1 for request in requests), "a request ended twice"
    session.close()
    assert all(request.ends == 1 for request in requests), "a request did not end once"
    assert session.pending == session.pending_bytes == 0, "something is pending on a closed connection"
    return refused


def _answer(chance: Random, *, is_first: bool) -> bytes:
    told = chance.randrange(40)
    if (told < 36) if is_first else (told == 0):
        return _THEIRS.opening()
    if told == 1:
        return mutate.payload(chance, _THEIRS.opening(), bytes(40))
    number = chance.randrange(9).to_bytes(4, "little")
    message_id = chance.choice((1, 2) * 8 + (3, 3, 99))
    body = {1: number, 2: bytes(4) + number + bytes(4)}.get(message_id, b"")
    whole = b"".join(frame(message_id, [body + bytes(chance.randrange(9))] if chance.random() < 0.95 else []))
    return (
        whole * chance.choice((1, 1, 2)) if chance.random() < 0.95 else whole[: chance.randrange(len(whole))]
    )
