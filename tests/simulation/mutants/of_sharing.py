"""Mutants of the coordinators of groups whose partitions they share out (KIP-848)."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a group's epoch goes back over a move of its coordinator",
        "tank_node.coordinators.consumer.consumer_sharing.Sharing.restore",
        "        self.epoch = image.epoch\n",
        "        self.epoch = 0\n",
        Kind.CLUSTER,
        told="a_coordinator_dies_and_what_it_shared_out_stays",
    ),
    Mutant(
        "what the members had is forgotten over a move of the coordinator",
        "tank_node.coordinators.consumer.consumer_sharing.Sharing.restore",
        "image.standings.get(member_id, MemberStanding())",
        "MemberStanding()",
        Kind.CLUSTER,
        told="a_coordinator_dies_and_what_it_shared_out_stays",
    ),
    Mutant(
        "a partition is given to a member while another one has it",
        "tank_node.coordinators.consumer.consumer_members.ConsumerMembers.is_free",
        "        return self._holders.get(place, member) is member\n",
        "        return True\n",
        Kind.CLUSTER,
        told="a_member_keeps_what_another_one_is_to_have",
    ),
    Mutant(
        "a partition counts as given up though its member still names it",
        "tank_node.coordinators.records.consumer_member.MemberStanding.toward",
        "            if owned is None or owned & self.revoking:\n",
        "            if owned is None:\n",
        Kind.CLUSTER,
        told="a_member_keeps_what_another_one_is_to_have",
    ),
    Mutant(
        "a member may keep for ever what it is to give up",
        "tank_node.coordinators.consumer.consumer_sharing.Sharing.stand",
        "            member.revoke_by_ms = now_ms + max(member.said.rebalance_ms, 0)\n",
        "            member.revoke_by_ms = now_ms + 3_600_000\n",
        Kind.CLUSTER,
        told="a_member_never_gives_up_what_another_one_is_to_have",
    ),
    Mutant(
        "members hear what they are to have before it is stored",
        "tank_node.coordinators.consumer.consumer_outbox.Outbox.answer",
        "        if not self._marked and not self._on_their_way:\n",
        "        if True:\n",
        Kind.CLUSTER,
        told="partitions_are_promised_by_a_coordinator_that_stores_nothing",
    ),
    Mutant(
        "a commit of an epoch that is over is taken",
        "tank_node.coordinators.consumer.consumer_group.ConsumerGroup.check_commit",
        "        if request.generation == member.standing.epoch:\n",
        "        if request.generation <= member.standing.epoch:\n",
        Kind.CLUSTER,
        told="a_member_commits_in_an_epoch_that_is_over",
    ),
    Mutant(
        "a heartbeat of a member that is given its partitions doesn't count",
        "tank_node.coordinators.consumer.consumer_heartbeats.ConsumerHeartbeats._go_on",
        "        sharing.hear(now_ms, member)\n",
        "        sharing.hear(now_ms, member) if joins else None\n",
        Kind.CLUSTER,
        told="members_that_live_keep_what_they_have",
    ),
    Mutant(
        "a member that is gone keeps its partitions",
        "tank_node.coordinators.consumer.consumer_sharing.Sharing.expire",
        "        for member in late:\n            self.dismiss(member)\n",
        "        late = []\n",
        Kind.CLUSTER,
        told="a_member_dies_and_the_other_reads_on",
    ),
    Mutant(
        "a second process takes the place of a static member that lives",
        "tank_node.coordinators.consumer.consumer_heartbeats.ConsumerHeartbeats._join",
        "            if not is_away and not static.is_classic:\n",
        "            if False:\n",
        Kind.CLUSTER,
        told="a_static_member_starts_again_while_it_lives",
    ),
)
