"""A request of a client that others answer: the controllers, or other brokers."""

from typing import TYPE_CHECKING, Protocol

from tank_node.tank.errors import outcome_of
from tank_protos.wire.message import Message

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


class Finish(Protocol):
    """Sends the answer of a request under way, in a version if it has several. It is called once."""

    def __call__(self, answer: Message, version: int = 0) -> None: ...


def asking(session: "TankSession", payload: memoryview) -> Finish:
    """Counts a request as under way. Returns the function that sends its answer."""
    size = len(payload)
    session.in_flight += 1
    session.asked_bytes += size

    def finish(answer: Message, version: int = 0) -> None:
        session.in_flight -= 1
        session.asked_bytes -= size
        error: int = getattr(answer, "error", 0)  # some answers have one for each of their parts alone
        session.answer(answer, outcome_of(error), version)

    return finish
