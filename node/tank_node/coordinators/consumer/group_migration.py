"""Groups that change their protocol while they have members (online upgrade and downgrade of KIP-848)."""

from collections.abc import Callable

from tank_node.coordinators.classic.classic_group import ClassicGroup
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.subscription import (
    CONSUMER,
    ConsumerSubscription,
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from tank_node.coordinators.consumer.consumer_group import ConsumerGroup
from tank_node.coordinators.consumer.consumer_sharing import Sharing
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_settings import GroupSettings, Migration
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.topics import Topics
from tank_node.coordinators.records.consumer_member import ClassicSide, MemberStanding, Said, ShareProgress
from tank_node.coordinators.records.group_records import group_record
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue, MemberMetadata

_NOBODY = (GroupState.EMPTY, GroupState.DEAD)
_UPGRADES = (Migration.BIDIRECTIONAL, Migration.UPGRADE)
_DOWNGRADES = (Migration.BIDIRECTIONAL, Migration.DOWNGRADE)


class GroupMigration:
    """Makes a machine of one protocol of one of the other. Numbers of generations and epochs only rise."""

    def __init__(self, settings: GroupSettings, topics: Topics, new_member_id: Callable[[str], str]) -> None:
        self._settings = settings
        self._topics = topics
        self._new_member_id = new_member_id

    def upgraded(self, classic: ClassicGroup, now_ms: int) -> ConsumerGroup | None:
        """The group as one of the consumer protocol, for a member of that protocol which is about to join;
        None if it can't be one. Members of the classic group that wait are sent to join again."""
        settings = self._settings
        last = classic.rebalance.last_number
        group = ConsumerGroup(classic.group_id, settings, self._topics, self._new_member_id, last)
        if classic.state in _NOBODY:
            group.sharing.is_there = classic.state is GroupState.EMPTY
            return group
        if settings.consumer_migration not in _UPGRADES:
            return None
        if classic.protocol_type != CONSUMER or len(classic.rebalance.members) >= settings.consumer_max_size:
            return None
        found = []
        for member in classic.rebalance.members:
            subscription = read_subscription(member.metadata(member.protocols[0][0]))
            assigned = read_assignment(member.assignment)
            if subscription is None or assigned is None:
                return None
            if not member.is_new:
                found.append((member.member_id, _said(member, subscription), assigned))
        generation = classic.generation.number
        for member in classic.rebalance.members:
            classic.rebalance.answers.refuse_all(member, GroupError.REBALANCING)
        sharing = group.sharing
        for member_id, said, assigned in found:
            standing = MemberStanding(generation, generation, ShareProgress.THERE, sharing.places(assigned))
            sharing.take_over(now_ms, member_id, said, standing)
        return group

    def downgraded(self, group: ConsumerGroup, now_ms: int, wall_ms: int) -> ClassicGroup | None:
        """The group as one of the classic protocol, whose members alone are left, and begin a rebalance; None
        if it stays. The consumer group's last change deletes it, and stores the classic one without a leader:
        so its members begin a rebalance at the next coordinator, too."""
        if self._settings.consumer_migration not in _DOWNGRADES:
            return None
        sharing = group.sharing
        sides = [(member, side) for member in sharing.members if (side := member.said.classic) is not None]
        first_side = sides[0][1]
        others = [{name for name, _ in side.protocols} for _, side in sides[1:]]
        common = [name for name, _ in first_side.protocols if all(name in each for each in others)]
        if not common:
            return None
        protocol = common[0]
        members = []
        for member, side in sides:
            metadata = dict(side.protocols)[protocol]
            members.append(
                MemberMetadata(
                    member.member_id,
                    member.said.instance_id,
                    member.said.client_id,
                    member.said.client_host,
                    member.said.rebalance_ms,
                    side.session_ms,
                    metadata,
                    assignment_bytes(metadata, sharing.named(member.standing.assigned)),
                )
            )
        image = GroupMetadataValue(CONSUMER, _told(sharing), protocol, None, wall_ms, members)
        sharing.outbox.end(group.tombstones(), group_record(group.group_id, image))
        return self._classic(group.group_id, image, now_ms)

    def emptied(self, group: ConsumerGroup, now_ms: int, wall_ms: int) -> ClassicGroup:
        """A group without members as one of the classic protocol, for a member which is about to join."""
        image = GroupMetadataValue(CONSUMER, group.sharing.epoch, None, None, wall_ms, [])
        return self._classic(group.group_id, image, now_ms)

    def _classic(self, group_id: str, image: GroupMetadataValue, now_ms: int) -> ClassicGroup:
        return ClassicGroup.from_image(group_id, self._settings, self._new_member_id, image, now_ms)


def _told(sharing: Sharing) -> int:
    """The last epoch that a member may have been told. The end of the last member of the other protocol has
    begun one more, of which no member was told: without it, members of the present epoch are asked to join
    again. Those of earlier epochs are refused, and join again, too."""
    epoch = sharing.epoch
    return epoch - 1 if all(member.standing.epoch < epoch for member in sharing.members) else epoch


def _said(member: Member, subscription: ConsumerSubscription) -> Said:
    return Said(
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        subscription.topics,
        "",
        member.rebalance_ms,
        None,
        ClassicSide(member.session_ms, member.protocols),
    )
