"""Mutants of the coordinators of consumer groups."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a group's generation goes back over a move of its coordinator",
        "tank_node.coordinators.classic.rebalance.Rebalance.restore",
        "        self.last_number = image.generation\n",
        "        self.last_number = 0\n",
        Kind.CLUSTER,
        told="a_groups_coordinator_dies_and_its_members_join_again",
    ),
    Mutant(
        "members hear of a generation before its number is stored, so that two lead it",
        "tank_node.coordinators.classic.rebalance.Rebalance._end_phase",
        "        self._forming = Forming("
        "generation, change, joined, everybody(members, generation.protocol))",
        "        forming = Forming(generation, change, joined, everybody(members, generation.protocol))\n"
        "        self._generation_stored(forming, now_ms, GroupError.NONE)",
        Kind.CLUSTER,
        told="a_coordinator_dies_before_a_generation_is_stored",
    ),
    Mutant(
        "an assignment is told before it is stored",
        "tank_node.coordinators.classic.rebalance.Rebalance.sync",
        "            self._assigning = Assigning(self._actions.store(image, is_whole=True), assignments)\n",
        "            change = self._actions.store(image, is_whole=True)\n"
        "            self._assignments_stored(Assigning(change, assignments), 0, GroupError.NONE)\n",
        Kind.CLUSTER,
        told="assignments_are_lost_with_their_coordinator",
    ),
    Mutant(
        "a commit of an old generation is taken",
        "tank_node.coordinators.classic.classic_group.ClassicGroup.check_commit",
        "        if request.generation != self.generation.number:\n",
        "        if request.generation > self.generation.number:\n",
        Kind.CLUSTER,
        told="a_member_commits_what_it_read_in_an_older_generation",
    ),
    Mutant(
        "a commit is acknowledged before it is stored, and lost by a move of the coordinator",
        "tank_node.coordinators.offset_changes.OffsetChanges._change",
        "        self._log.append(GroupChange(records, change.ended, change.answered, topic_ids))\n",
        "        early = GroupChange(records, change.ended, change.answered, topic_ids)\n"
        "        self._log.append(early)\n"
        "        early.answer(GroupError.NONE)\n",
        Kind.CLUSTER,
        told="a_commit_is_lost_with_its_coordinator",
    ),
    Mutant(
        "a fenced static member goes on",
        "tank_node.coordinators.machine.named_members.NamedMembers.find",
        "            if member is not None and member.member_id != name.member_id:\n",
        "            if member is not None and not name.member_id:\n",
        Kind.CLUSTER,
        told="an_old_process_of_a_static_member_goes_on",
    ),
    Mutant(
        "a heartbeat doesn't count",
        "tank_node.coordinators.classic.classic_group.ClassicGroup.heartbeat",
        "            self.rebalance.set_session(member, now_ms)\n",
        "            pass\n",
        Kind.CLUSTER,
        told="members_that_live_are_kept",
    ),
    Mutant(
        "offsets expire of a group that lives",
        "tank_node.coordinators.offsets.offset_expiry.OffsetExpiry.takes",
        "return partition[0] not in self._read",
        "return True",
        Kind.CLUSTER,
        told="a_group_reads_slowly_what_it_has_committed_long_ago",
    ),
    Mutant(
        "a coordinator answers before it has read its groups",
        "tank_node.coordinators.group_partition.GroupPartition.__init__",
        "        self.state = GroupError.LOADING\n",
        "        self.state = GroupError.NONE\n",
        Kind.CLUSTER,
        told="a_new_coordinator_is_asked_while_it_reads_its_groups",
    ),
)
