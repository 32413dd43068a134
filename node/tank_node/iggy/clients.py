"""The open sessions of a broker's Iggy clients."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared

if TYPE_CHECKING:
    from tank_node.iggy.session import IggySession

_REGISTER = "register"


class IggySessions:
    """All open sessions, the oldest first."""

    __slots__ = ("by_serial",)

    def __init__(self) -> None:
        self.by_serial: dict[int, IggySession] = {}

    def add(self, session: "IggySession") -> None:
        """Adds a session until its connection has ended."""
        serial = session.serial
        self.by_serial[serial] = session
        session.endings[_REGISTER] = partial(self._remove, serial)

    def _remove(self, serial: int) -> None:
        self.by_serial.pop(serial, None)


def note_session(broker: Broker, session: "IggySession") -> None:
    """Notes that a client has connected."""
    shared(broker, IggySessions, _new_sessions).add(session)


def open_sessions(broker: Broker) -> Sequence["IggySession"]:
    """The broker's open sessions, the oldest first."""
    return list(shared(broker, IggySessions, _new_sessions).by_serial.values())


def _new_sessions(broker: Broker) -> IggySessions:
    return IggySessions()
