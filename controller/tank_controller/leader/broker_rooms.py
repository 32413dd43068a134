"""Which brokers' volumes have room for messages: what their heartbeats say becomes state. Pure.

A broker judges its own volume (`tank_node.volume`). Where it has no room, others lead in its place if they
can; a broker that says that there is room again stays as it was, until it says that there is enough.
"""

import logging

from tank_controller.state.state import ClusterState
from tank_protos.feature_levels import ROOM_COMPARED
from tank_protos.generated import control_pb2 as pb

_log = logging.getLogger("tank.controller")

_MEANS_NONE = {pb.ROOM_NONE: True, pb.ROOM_ENOUGH: False}
"""What the state is to say; what is not here changes nothing."""


class BrokerRooms:
    """One controller's."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[int, bool]] = {}
        """By broker: the epoch of its process, and whether it said that it has no room. Not yet proposed."""

    def begin_term(self) -> None:
        """This controller leads from now on, or no more: nothing is known."""
        self._said.clear()

    def heard(self, broker_id: int, epoch: int, heartbeat: pb.BrokerHeartbeat) -> None:
        """A heartbeat of this process came."""
        no_room = _MEANS_NONE.get(heartbeat.room)
        if no_room is not None:
            self._said[broker_id] = epoch, no_room

    def tick(self, state: ClusterState) -> list[pb.Command]:
        """What to propose now. Not to be called again before it was applied or refused."""
        said, self._said = self._said, {}
        if state.feature_level < ROOM_COMPARED:
            return []
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
