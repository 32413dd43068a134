"""Mutants of the handling of volumes that fill."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a broker without room leads on",
        "tank_controller.state.model.BrokerState.steps_aside",
        "        return self.leaves or self.clock_off or self.no_room\n",
        "        return self.leaves or self.clock_off\n",
        Kind.CLUSTER,
        told="a_leaders_volume_is_full",
    ),
    Mutant(
        "a broker leads again as soon as some room is free",
        "tank_node.volume.Volume._judge",
        "            self.room = Room.ENOUGH if space.size > self._size_when_full else Room.AGAIN\n",
        "            self.room = Room.ENOUGH\n",
        Kind.CLUSTER,
        told="room_that_is_free_again_brings_no_leadership_back",
    ),
    Mutant(
        "of replicas without room the last one leads",
        "tank_controller.commands.elections.Elections.best",
        "        return min(members, key=worse, default=NO_BROKER)\n",
        "        return min(reversed(members), key=worse, default=NO_BROKER)\n",
        Kind.CLUSTER,
        told="volumes_that_are_all_full_change_no_leader",
    ),
    Mutant(
        "a broker takes part though its folder does not know its registration",
        "tank_node.broker.broker.Broker.take_part",
        "        self.link.hold_back(on=not recorded)\n        if not recorded:\n            return\n",
        "",
        Kind.CLUSTER,
        told="a_volume_without_a_byte_keeps_the_registration_out_of_the_folder",
    ),
)
