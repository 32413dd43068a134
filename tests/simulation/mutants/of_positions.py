"""Mutants of positions that TANK clients commit: of their move to the groups' coordinators, and there."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a commit acknowledged and lost by the move: positions are dropped before they are stored",
        "tank_node.coordinators.positions_move._PartitionMove._fetched",
        "        self._led.store_offsets(name, offsets, self._kept)",
        "        self._led.store_offsets(name, offsets, lambda error: None)\n"
        "        self._kept(GroupError.NONE)",
        Kind.CLUSTER,
        told="a_coordinator_dies_while_positions_move",
    ),
    Mutant(
        "a group is shown without the positions that are on their way",
        "tank_node.coordinators.positions_move.PositionsMove.is_over",
        "        if self._broker.has_all_positions or self._moved.get(led.partition.number) is led:\n",
        "        if True:\n",
        Kind.CLUSTER,
        told="a_coordinator_dies_while_positions_move",
    ),
    Mutant(
        "positions are not taken over",
        "tank_node.coordinators.positions_move.PositionsMove._begin_round",
        "            elif not led.is_closed and (mine := by_number.get(led.partition.number)):\n",
        "            elif not led.is_closed and (mine := by_number.get(-1)):\n",
        Kind.CLUSTER,
        told="positions_move_to_their_coordinator_which_dies",
    ),
    Mutant(
        "the level of Iggy's clients comes though a coordinator has a group with a name of theirs",
        "tank_controller.leader.raising.Raising.command",
        "        if level == feature_levels.IGGY and not self.held.found(state).are_free:\n",
        "        if False:\n",
        Kind.CLUSTER,
        told="a_group_that_moves_holds_up_the_level_that_needs_its_name",
    ),
    Mutant(
        "a coordinator's word from before it took a group over counts after that",
        "tank_controller.leader.held_names.HeldNames.found",
        " or said.seen_index < self._since:\n",
        ":\n",
        Kind.CLUSTER,
        told="a_group_that_moves_holds_up_the_level_that_needs_its_name",
    ),
    Mutant(
        "the controllers say that a group has no positions which they have dropped",
        "tank_controller.leader.brokers.requests._refusal",
        "    if (state.feature_level >= NATIVE_GROUPS) is to_move:\n",
        "    if True:\n",
        Kind.CLUSTER,
        told="a_question_of_before_the_move_comes_after_it",
    ),
    Mutant(
        "a coordinator takes a commit though the group went on by way of another broker",
        "tank_node.coordinators.offsets.commit_order.CommitOrder.is_late",
        "            if heard < number and setter != connection:\n",
        "            if False:\n",
        Kind.CLUSTER,
        told="a_commit_in_flight_comes_after_its_group_went_on",
    ),
    Mutant(
        "a coordinator takes a heartbeat though its member went on by way of another broker",
        "tank_node.peers.group_service.GroupService._heartbeat",
        'self._taken(led, members, request.group, place, asker, "late_heartbeat")',
        'self._taken(led, members, request.group, place, replace(asker, heard=None), "late_heartbeat")',
        Kind.CLUSTER,
        told="a_heartbeat_in_flight_comes_after_its_member_went_on",
    ),
    Mutant(
        "a broker shows positions without asking whether it still coordinates",
        "tank_node.peers.group_service.GroupService._confirm",
        "        self._broker.link.requests.await_view(asked)",
        "        asked(True)",
        Kind.CLUSTER,
        told="a_coordinator_is_asked_that_coordinates_no_more",
        also=(
            (
                "tank_node.peers.group_service.GroupService._confirm",
                "        if self._broker.link.silence_ms > _LEADERLESS_MS:\n",
                "        if False:\n",
            ),
            (
                "tank_node.coordinators.group_partition.GroupPartition.is_cut_off",
                "        return not leadership.is_followed(silence_ms)\n",
                "        return False\n",
            ),
        ),
    ),
)
