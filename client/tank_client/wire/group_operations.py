"""Consumer groups as operations: heartbeats of members, lists, descriptions and deletions; pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tank_client import errors
from tank_client.model import (
    ConsumerGroupState,
    Features,
    GroupDescription,
    GroupMember,
    GroupSummary,
    Route,
)
from tank_client.wire.operations import ClientOperation, error_of, has, need
from tank_protos.error_codes import GroupStateCode
from tank_protos.generated.tank import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OwnedTopic,
    PositionsOfTopic,
)

_MEMBERS: Final = "members of consumer groups"
_STATES: Final[dict[int, ConsumerGroupState]] = {
    GroupStateCode.DEAD: ConsumerGroupState.DEAD,
    GroupStateCode.EMPTY: ConsumerGroupState.EMPTY,
    GroupStateCode.PREPARING_REBALANCE: ConsumerGroupState.PREPARING_REBALANCE,
    GroupStateCode.COMPLETING_REBALANCE: ConsumerGroupState.COMPLETING_REBALANCE,
    GroupStateCode.STABLE: ConsumerGroupState.STABLE,
    GroupStateCode.ASSIGNING: ConsumerGroupState.ASSIGNING,
    GroupStateCode.RECONCILING: ConsumerGroupState.RECONCILING,
}
MOST_GROUPS: Final = 500
"""How many groups one request names: brokers take twice as many."""
LISTS_STATES: Final = 1
"""The version of ListGroups from which on it lists all groups, with their states."""
LISTS_TITLES: Final = 2
"""The version from which on it says what people know a group by."""


def shares_partitions(server: Features) -> bool:
    """Whether the broker assigns partitions to members of groups."""
    return has(server, "group_heartbeat")


@dataclass(slots=True, frozen=True)
class MemberPlan:
    """What stays the same in all heartbeats of a member. `instance_id` and `assignor`: empty for none."""

    group: str
    topics: tuple[str, ...]
    member_id: str
    instance_id: str
    assignor: str
    rebalance_timeout_ms: int
    client_name: str


@dataclass(slots=True, frozen=True)
class MemberPlace:
    """The answer to a heartbeat. `assignment`: None when it is unchanged."""

    epoch: int
    heartbeat_ms: int
    assignment: frozenset[Route] | None


def group_heartbeat(
    plan: MemberPlan, epoch: int, owned: Collection[Route]
) -> ClientOperation[MemberPlace | errors.TankError]:
    """Joins, stays or leaves (`epoch`). Each heartbeat says everything, so that it may be repeated after a
    lost answer, and its answer has the assignment. A refusal is a result, too: the member decides."""

    def build(server: Features) -> GroupHeartbeatRequest:
        need(server, "group_heartbeat", _MEMBERS, "name the partitions: client.consumer({topic: [0, 1]})")
        return GroupHeartbeatRequest(
            group=plan.group,
            member_id=plan.member_id,
            instance_id=plan.instance_id,
            member_epoch=epoch,
            rebalance_timeout_ms=plan.rebalance_timeout_ms,
            has_topics=1,
            topics=list(plan.topics),
            assignor=plan.assignor,
            has_owned=1,
            owned=[OwnedTopic(topic, numbers) for topic, numbers in by_topic(owned)],
            client_name=plan.client_name,
        )

    def read(answer: GroupHeartbeatResponse, server: Features) -> MemberPlace | errors.TankError:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            return error
        assigned = {(each.topic, number) for each in answer.assignment for number in each.partitions}
        return MemberPlace(
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            frozenset(assigned) if answer.has_assignment else None,
        )

    return ClientOperation(
        f"heartbeat in group {plan.group}", build, lambda server: GroupHeartbeatResponse, read
    )


def group_summaries() -> ClientOperation[list[GroupSummary]]:
    """All groups with their states; from an older broker the names of those that have positions."""

    def build(server: Features) -> ListGroupsRequest:
        need(server, "list_groups", "consumer groups")
        newest = server.features["list_groups"][1]
        return ListGroupsRequest(version=min(newest, LISTS_TITLES))

    def read(answer: ListGroupsResponse, server: Features) -> list[GroupSummary]:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        if server.features["list_groups"][1] < LISTS_STATES:
            return [GroupSummary(name) for name in answer.groups]
        return [
            GroupSummary(each.group, each.protocol_type, _state(each.state), each.members, each.title)
            for each in answer.listed
        ]

    return ClientOperation("list groups", build, lambda server: ListGroupsResponse, read)


def describe_groups(names: Iterable[str]) -> ClientOperation[list[GroupDescription]]:
    """The groups in the order of the names, at most MOST_GROUPS. Raises the first error but UnknownGroup: a
    group that isn't there is DEAD."""
    wanted = list(names)

    def build(server: Features) -> DescribeGroupsRequest:
        need(server, "describe_groups", _MEMBERS)
        return DescribeGroupsRequest(groups=wanted)

    def read(answer: DescribeGroupsResponse, server: Features) -> list[GroupDescription]:
        _check_count(answer.groups, wanted)
        return [_described(group) for group in answer.groups]

    return ClientOperation("describe groups", build, lambda server: DescribeGroupsResponse, read)


def delete_groups(names: Iterable[str]) -> ClientOperation[dict[str, errors.TankError | None]]:
    """Deletes groups and their positions: {name: its error, None: deleted}. An error that may pass is raised:
    a group that was deleted before counts as deleted."""
    wanted = list(names)

    def build(server: Features) -> DeleteGroupsRequest:
        need(server, "delete_groups", "deleting consumer groups")
        return DeleteGroupsRequest(groups=wanted)

    def read(answer: DeleteGroupsResponse, server: Features) -> dict[str, errors.TankError | None]:
        _check_count(answer.results, wanted)
        results = {
            name: error_of(result.error, "", -1, result.message)
            for name, result in zip(wanted, answer.results, strict=True)
        }
        for error in results.values():
            if error is not None and error.retriable:
                raise error
        return results

    return ClientOperation("delete groups", build, lambda server: DeleteGroupsResponse, read)


def delete_positions(group: str, routes: Iterable[Route]) -> ClientOperation[None]:
    """Deletes the group's positions in these partitions."""
    topics = by_topic(routes)
    asked = [(topic, number) for topic, numbers in topics for number in numbers]

    def build(server: Features) -> DeletePositionsRequest:
        need(server, "delete_positions", "deleting positions")
        return DeletePositionsRequest(
            group=group, topics=[PositionsOfTopic(topic, numbers) for topic, numbers in topics]
        )

    def read(answer: DeletePositionsResponse, server: Features) -> None:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        _check_count(answer.results, asked)
        for (topic, partition), result in zip(asked, answer.results, strict=True):
            error = error_of(result.error, topic, partition)
            if error is not None:
                raise error

    return ClientOperation(
        f"delete positions of {group}", build, lambda server: DeletePositionsResponse, read
    )


def portions(names: list[str]) -> Iterator[list[str]]:
    """The names in lists for one request each."""
    for at in range(0, len(names), MOST_GROUPS):
        yield names[at : at + MOST_GROUPS]


def by_topic(routes: Iterable[Route]) -> list[tuple[str, list[int]]]:
    """The partitions by topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(set(routes)):
        found.setdefault(topic, []).append(partition)
    return list(found.items())


def _described(group: DescribedGroup) -> GroupDescription:
    error = error_of(group.error, "", -1, group.message)
    if isinstance(error, errors.UnknownGroup):
        return GroupDescription(group.group, ConsumerGroupState.DEAD, "", "", -1, ())
    if error is not None:
        raise error
    return GroupDescription(
        group.group,
        _state(group.state),
        group.protocol_type,
        group.protocol,
        group.epoch,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_name,
                member.host,
                member.epoch,
                tuple(member.subscribed),
                tuple((each.topic, number) for each in member.assignment for number in each.partitions),
            )
            for member in group.members
        ),
    )


def _state(code: int) -> ConsumerGroupState:
    return _STATES.get(code, ConsumerGroupState.UNKNOWN)


def _check_count(answers: Sequence[object], asked: Sequence[object]) -> None:
    if len(answers) != len(asked):
        raise errors.ProtocolViolation("an answer with another number of entries than the request")
