"""A group as it is stored: the value of its record in `__consumer_offsets`."""

from collections.abc import Iterable, Mapping

from tank_node.coordinators.classic.generation import Generation
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.machine.group_requests import JoinRequest, MemberName
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue, MemberMetadata


def image_of(
    protocol_type: str, generation: Generation, members: Iterable[Member], assignments: Mapping[str, bytes]
) -> GroupMetadataValue:
    """The image of a generation, without a time. Members that have no assignment get an empty one."""
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation.number,
        protocol=generation.protocol,
        leader=generation.leader_id or None,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_ms,
                session_timeout=member.session_ms,
                subscription=member.metadata(generation.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in members
        ],
    )


def members_of(group_id: str, image: GroupMetadataValue) -> list[Member]:
    """The members of a stored generation: of their protocols the chosen one alone is known."""
    found = []
    for stored in image.members:
        request = JoinRequest(
            MemberName(group_id, stored.member_id, stored.group_instance_id),
            stored.client_id,
            stored.client_host,
            stored.session_timeout,
            stored.rebalance_timeout,
            image.protocol_type,
            ((image.protocol or "", bytes(stored.subscription)),),
        )
        member = Member(stored.member_id, request)
        member.assignment = bytes(stored.assignment)
        found.append(member)
    return found
