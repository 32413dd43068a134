"""What is broken on purpose in what leaders and followers believe of each other."""

from tests.simulation.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a follower shows all that it holds",
        "tank_node.partition.reads.ReadablePartition.fetch_as_follower",
        "        through = self.high_water_mark\n",
        "        through = self.log.written\n",
        Kind.CLUSTER,
        told="a_follower_is_read_up_to_its_mark",
    ),
    Mutant(
        "a made-up leader epoch is believed for good",
        "tank_node.partition.beliefs.Beliefs._judge",
        "            if epoch is None or epoch >= claim.leader_epoch:",
        "            if True:",
        Kind.CLUSTER,
        told="a_leader_epoch_is_made_up",
    ),
    Mutant(
        "an epoch that the view lacks is given up by the clock alone",
        "tank_node.partition.beliefs.Beliefs.tick",
        "        self._link.await_view(lambda known: self._judge(due, known=known))",
        "        self._judge(due, known=True)",
        Kind.CLUSTER,
        told="an_epoch_is_heard_before_the_view_has_it",
        also=(("tank_node.partition.beliefs.Beliefs.tick", " or not self._link.connected:", ":"),),
    ),
    Mutant(
        "a push is taken though its head is another one than was sent",
        "tank_protos.storage.stretch.check_head",
        "    if crc32c(entry) != ",
        "    if None == ",
        Kind.CLUSTER,
        told="a_push_changes_on_its_way",
    ),
    Mutant(
        "a second process takes a broker's place while the first lives",
        "tank_controller.leader.registration._another_lives",
        "    return is_other and sessions.lives(",
        "    return False and sessions.lives(",
        Kind.CLUSTER,
        told="a_second_process_says_that_it_is_a_broker",
    ),
    Mutant(
        "a leader counts on a replica that was moved away and back",
        "tank_node.partition.leader.Leadership.view",
        "        if missed:\n",
        "        if False:\n",
        Kind.CLUSTER,
        told="a_leader_hears_late_that_a_replica_was_moved_away_and_back",
    ),
    Mutant(
        "min.insync.replicas counts the set of before a proposal",
        "tank_node.replication.in_sync.InSync.size",
        "return size if self.proposed is None else min(size, len(self.proposed))",
        "return size",
        Kind.CLUSTER,
        told="a_smaller_set_is_proposed_and_its_outcome_not_heard",
    ),
    Mutant(
        "a replica leads that is being filled anew",
        "tank_node.partition.roles.Roles._may_lead",
        "        if log.state is not LogState.ACTIVE or log.is_impaired:\n",
        "        if log.state is not LogState.ACTIVE:\n",
        Kind.CLUSTER,
        told="a_replica_that_is_being_filled_is_elected",
    ),
)
