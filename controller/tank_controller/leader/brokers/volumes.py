"""The brokers whose volumes have no room for messages: heartbeats report it, commands put it into the state.

Pure. A broker judges its own volume (`tank_node.volume`). Where it has no room, other brokers lead in its
place if they can, until it reports enough room again.
"""

import logging

from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb

_log = logging.getLogger("tank.controller")

_MEANS_NONE = {pb.ROOM_NONE: True, pb.ROOM_ENOUGH: False}
"""The broker's mark in the state for a report; reports of other values change nothing."""


class BrokerRooms:
    """The reports that one controller has received."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[int, bool]] = {}
        """By broker: the epoch of its process, and whether it reported no room. Not yet proposed."""

    def begin_term(self) -> None:
        """Forgets all reports: this controller began or ceased to lead."""
        self._said.clear()

    def heard(self, broker_id: int, epoch: int, heartbeat: pb.BrokerHeartbeat) -> None:
        """Takes the report in a heartbeat of this process."""
        no_room = _MEANS_NONE.get(heartbeat.room)
        if no_room is not None:
            self._said[broker_id] = epoch, no_room

    def tick(self, state: ClusterState) -> list[pb.Command]:
        """The commands to propose now. Call it again only when these were applied or refused."""
        said, self._said = self._said, {}
        commands = []
        for broker_id, (epoch, no_room) in said.items():
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != epoch or broker.no_room is no_room:
                continue
            change = pb.SetBroker(broker_id=broker_id, epoch=epoch, no_room=no_room)
            commands.append(pb.Command(set_broker=change))
            if no_room:
                _log.warning("the volume of broker %s is full: others lead in its place", broker_id)
            else:
                _log.info("the volume of broker %s has room: it may lead", broker_id)
        return commands
