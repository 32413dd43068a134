"""Mutants of the names of Iggy's clients, and of their groups and stored offsets."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a purged topic keeps its id, and with it the messages of a broker that was away",
        "tank_controller.commands.iggy.purging.purge_topic",
        "        topic_id=state.index,\n",
        "        topic_id=before.topic_id,\n",
        Kind.CLUSTER,
        told="a_topic_is_purged_under_writers",
    ),
    Mutant(
        "a broker that was away when a topic was purged sets its messages aside for ever",
        "tank_node.broker.removed_partitions.delete_purged",
        "        folder.delete_topic(topic_id)\n",
        "        pass\n",
        Kind.CLUSTER,
        told="a_topic_is_purged_under_writers",
    ),
    Mutant(
        "a renamed stream is found by its old name, too",
        "tank_node.cluster.iggy.view.IggyView._put_stream",
        "        self._remove_stream(stream.number)\n",
        "",
        Kind.CLUSTER,
        told="a_stream_and_its_topic_are_renamed_under_readers",
    ),
    Mutant(
        "a broker that is behind deletes the topic that had the name before",
        "tank_node.iggy.session.IggySession._carry_out",
        "        elif command.is_change:\n",
        "        elif False:\n",
        Kind.CLUSTER,
        told="a_topic_is_deleted_by_its_name_through_a_broker_that_is_behind",
    ),
    Mutant(
        "a partition that moves is polled by two members at once",
        "tank_node.coordinators.iggy.holdings.Holdings.share",
        "                self.pending[number] = PendingPartition(members[place], since_ms, first)\n",
        "                self.owners[number] = members[place]\n",
        Kind.CLUSTER,
        told="an_assignment_is_moved_from_a_live_member",
    ),
    Mutant(
        "a member gives a partition up before it has stored how far it came",
        "tank_node.peers.iggy.iggy_membership.IggyMembership._is_done_with",
        "        return stored is not None and stored >= polled\n",
        "        return True\n",
        Kind.CLUSTER,
        told="an_assignment_is_moved_from_a_live_member",
    ),
    Mutant(
        "a member keeps for ever what it never stores",
        "tank_node.coordinators.iggy.holdings.Holdings.expire",
        "now_ms - each.since_ms >= PENDING_MS",
        "now_ms < each.since_ms",
        Kind.CLUSTER,
        told="a_member_never_stores_what_it_is_to_give_up",
    ),
    Mutant(
        "what is stored with polls is in the leader's memory alone",
        "tank_node.peers.iggy.iggy_positions.IggyPositions.store",
        "            self._cache.soil(place, found)\n",
        "",
        Kind.CLUSTER,
        told="a_leader_dies_with_offsets_that_it_was_to_store_soon",
    ),
    Mutant(
        "a late answer to a poll sets an offset back",
        "tank_node.peers.iggy.iggy_positions.IggyPositions._advance",
        "        if error or stored != seen:\n",
        "        if error:\n",
        Kind.CLUSTER,
        told="a_poll_is_answered_when_its_consumer_has_gone_on",
    ),
    Mutant(
        "a deposed leader sets an offset back",
        "tank_node.peers.iggy.iggy_service.IggyService._found",
        "        if not self._fence.admits(place, change.leader_epoch, in_view):\n",
        "        if False:\n",
        Kind.CLUSTER,
        told="a_deposed_leader_stores_what_it_was_to_store_soon",
        also=(
            (
                "tank_node.peers.iggy.iggy_service.IggyService._found",
                "stored.leader_epoch > change.leader_epoch",
                "False",
            ),
        ),
    ),
    Mutant(
        "a partition made anew has the offsets of the one that was removed",
        "tank_node.coordinators.offset_sweep._is_of_earlier",
        "    return NO_EPOCH < offset.leader_epoch < placed.first_epoch\n",
        "    return False\n",
        Kind.CLUSTER,
        told="a_partition_is_removed_and_added_under_a_consumer",
    ),
    Mutant(
        "a purged topic keeps its consumers' offsets",
        "tank_node.peers.iggy.iggy_service.IggyService._read",
        "            if stored is None or stored.topic_id != change.topic_id:\n",
        "            if stored is None:\n",
        Kind.CLUSTER,
        told="a_topic_is_purged_under_a_consumer",
        also=(
            (
                "tank_node.coordinators.offset_sweep.OffsetSweep._left_of",
                "        return 0 if is_deleted else _MORE_THAN_ANY, ()\n",
                "        return _MORE_THAN_ANY, ()\n",
            ),
        ),
    ),
)
