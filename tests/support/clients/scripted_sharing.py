"""The groups of a scripted broker that shares partitions out: TANK's messages 0x48, 0x49, 0x4a and 0x50 to
0x53."""

from typing import Any, Final

from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.generated import tank
from tests.support.clients.sharing_group import SharingGroup

FEATURES: Final = {
    "group_heartbeat": 0, "describe_groups": 0, "delete_groups": 0, "delete_positions": 0,
    "list_groups": 1, "commit_positions": 1,
}  # fmt: skip
"""Their newest versions."""
HEARTBEAT_MS: Final = 30


class ScriptedSharing:
    """All groups of one broker, or of several that share this object. Groups come to be at their first
    heartbeat or commit."""

    def __init__(self, topics: dict[str, int]) -> None:
        self.topics = topics
        self.groups: dict[str, SharingGroup] = {}
        self.heartbeats: list[Any] = []
        """All that were answered."""
        self.events: list[tuple[Any, ...]] = []
        """In order: ("commit", member, positions), ("owns", member, partitions)."""

    def group(self, name: str) -> SharingGroup:
        return self.groups.setdefault(name, SharingGroup(self.topics))

    def handlers(self) -> dict[int, tuple[Any, Any]]:
        return {
            72: (tank.CommitPositionsRequest, self._commit),
            73: (tank.FetchPositionsRequest, self._positions),
            74: (tank.ListGroupsRequest, self._list),
            80: (tank.GroupHeartbeatRequest, self._heartbeat),
            81: (tank.DescribeGroupsRequest, self._describe),
            82: (tank.DeleteGroupsRequest, self._delete),
            83: (tank.DeletePositionsRequest, self._delete_positions),
        }

    def _heartbeat(self, request: Any, error: int) -> Any:
        owned = {(each.topic, number) for each in request.owned for number in each.partitions}
        if error:
            return tank.GroupHeartbeatResponse(error=error)
        self.heartbeats.append(request)
        self.events.append(("owns", request.member_id, sorted(owned)))
        refused, epoch, assignment = self.group(request.group).heartbeat(
            request.member_id, request.member_epoch, request.topics, owned, request.instance_id
        )
        if refused:
            return tank.GroupHeartbeatResponse(error=refused, message=ErrorCode(refused).name)
        return tank.GroupHeartbeatResponse(
            member_epoch=epoch,
            heartbeat_interval_ms=HEARTBEAT_MS,
            has_assignment=1,
            assignment=[tank.AssignedTopic(topic, [number]) for topic, number in sorted(assignment)],
        )

    def _commit(self, request: Any, error: int) -> Any:
        positions = {(kept.topic, kept.partition): kept.sequence_number for kept in request.positions}
        self.events.append(("commit", request.member_id, positions))
        refused = error or self.group(request.group).commit(
            request.member_id, request.member_epoch, positions
        )
        return tank.CommitPositionsResponse(results=[tank.CommitResult(refused) for _ in request.positions])

    def _positions(self, request: Any, error: int) -> Any:
        return tank.FetchPositionsResponse(
            error=error,
            positions=[
                tank.CommittedPosition(topic, partition, number)
                for (topic, partition), number in self.group(request.group).positions.items()
                if not request.topics or topic in request.topics
            ],
        )

    def _list(self, request: Any, error: int) -> Any:
        if not request.version:
            return tank.ListGroupsResponse(groups=sorted(self.groups))
        return tank.ListGroupsResponse(
            listed=[
                tank.ListedGroup(name, "consumer", _state(group), len(group.members))
                for name, group in sorted(self.groups.items())
            ]
        )

    def _describe(self, request: Any, error: int) -> Any:
        described = []
        for name in request.groups:
            group = self.groups.get(name)
            if group is None:
                described.append(tank.DescribedGroup(group=name, state=GroupStateCode.DEAD))
                continue
            members = [
                tank.GroupMember(
                    member_id=member_id,
                    instance_id=member.instance_id,
                    client_name="tank-client",
                    host="127.0.0.1",
                    epoch=member.epoch,
                    subscribed=list(member.topics),
                    assignment=[tank.MemberTopic(topic, [number]) for topic, number in sorted(member.has)],
                )
                for member_id, member in sorted(group.members.items())
            ]
            described.append(
                tank.DescribedGroup(
                    group=name,
                    state=_state(group),
                    protocol_type="consumer",
                    protocol="uniform",
                    epoch=group.epoch,
                    members=members,
                )
            )
        return tank.DescribeGroupsResponse(groups=described)

    def _delete(self, request: Any, error: int) -> Any:
        results = []
        for name in request.groups:
            group = self.groups.get(name)
            if group is None:
                results.append(tank.DeletedGroup(ErrorCode.UNKNOWN_GROUP, f"there is no group {name}"))
            elif group.members:
                results.append(tank.DeletedGroup(ErrorCode.GROUP_NOT_EMPTY, f"group {name} has members"))
            else:
                del self.groups[name]
                results.append(tank.DeletedGroup())
        return tank.DeleteGroupsResponse(results=results)

    def _delete_positions(self, request: Any, error: int) -> Any:
        group = self.groups.get(request.group)
        if group is None:
            return tank.DeletePositionsResponse(error=ErrorCode.UNKNOWN_GROUP, message="no such group")
        results = []
        read = {topic for member in group.members.values() for topic in member.topics}
        for each in request.topics:
            for number in each.partitions:
                if each.topic not in read:
                    group.positions.pop((each.topic, number), None)
                results.append(tank.DeletedPosition(ErrorCode.SUBSCRIBED if each.topic in read else 0))
        return tank.DeletePositionsResponse(results=results)


def _state(group: SharingGroup) -> int:
    return GroupStateCode.STABLE if group.members else GroupStateCode.EMPTY
