"""Consumer groups for the HTTP API: any broker answers for all, because it asks their coordinators."""

from collections.abc import Callable
from typing import Final

from tank_node.api.errors import refused
from tank_node.api.inner_client import InnerClient
from tank_node.api.operations import MAX_RESET
from tank_node.api.positions import LogEnds, Place, commit, committed, ends_of
from tank_node.broker.broker import Broker
from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.generated.tank import (
    CommittedPosition,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupMember,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tank_protos.http_api.errors import ApiError, Json, invalid
from tank_protos.http_api.fields import Values
from tank_protos.http_api.operations import ApiRequest
from tank_protos.position_reset import Goal, NoPositionError, To, changes
from tank_protos.wire.names import readable

_LISTS_TITLES: Final = 2
"""The version of ListGroups that lists all groups, with their states, and what people know them by."""
_NAMED: Final = 5
"""The most members that a message names."""


class GroupOperations:
    """The operations on groups. Each raises ApiError."""

    def __init__(self, broker: Broker, open_client: Callable[[], InnerClient]) -> None:
        self._broker = broker
        self._open_client = open_client

    async def listed(self, asked: ApiRequest) -> Json:
        """A page of the groups, by the names that are shown. Groups whose names are shown as the same,
        because they are not UTF-8, are on one page, which may be longer for them."""
        async with self._open_client() as client:
            answer = await client.ask(
                lambda request_id: ListGroupsRequest(_LISTS_TITLES, request_id),
                ListGroupsResponse,
                _LISTS_TITLES,
            )
        if answer.error:
            raise refused(answer.error, answer.message)
        after, limit = asked.query.text("after"), asked.query.integer("limit")
        named = sorted((readable(each.group), each.group, each) for each in answer.listed)
        found = [(name, each) for name, _, each in named if name > after]
        end = limit
        while 0 < end < len(found) and found[end][0] == found[end - 1][0]:
            end += 1
        return {
            "groups": [
                {
                    "group": name,
                    "state": state_name(each.state),
                    "protocol_type": each.protocol_type,
                    "members": each.members,
                    "title": each.title or None,
                }
                for name, each in found[:end]
            ],
            "next": found[end - 1][0] if len(found) > end else None,
        }

    async def one(self, asked: ApiRequest) -> Json:
        """A group with its members, and a page of its partitions."""
        name, limit = asked.path.text("group"), asked.query.integer("limit")
        after = _place(asked.query.text("after"))
        async with self._open_client() as client:
            group = await _described(client, name)
            positions = await committed(client, name)
            owners = {
                (topic.topic, number): member.member_id
                for member in group.members
                for topic in member.assignment
                for number in topic.partitions
            }
            places = sorted(place for place in positions.keys() | owners.keys() if place > after)
            shown = places[:limit]
            ends = await ends_of(client, shown)
        more = f"{shown[-1][0]}/{shown[-1][1]}" if len(places) > limit else None
        return {
            "group": group.group,
            "state": state_name(group.state),
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "epoch": group.epoch,
            "members": [_member(each) for each in group.members],
            "partitions": [
                _progress(each, positions.get(each), ends.get(each), owners.get(each)) for each in shown
            ],
            "next": more,
        }

    async def delete(self, asked: ApiRequest) -> Json:
        """Deletes a group without members."""
        name = asked.path.text("group")
        async with self._open_client() as client:
            group = await _described(client, name)
            _check_empty(group, "delete it")
            answer = await client.ask(
                lambda request_id: DeleteGroupsRequest(request_id=request_id, groups=[name]),
                DeleteGroupsResponse,
            )
        (result,) = answer.results
        if result.error:
            raise refused(result.error, result.message)
        return {"deleted": name}

    async def reset(self, asked: ApiRequest) -> Json:
        """Sets positions of a group without members."""
        name, dry_run = asked.path.text("group"), asked.body.flag("dry_run")
        goal = _goal(asked.body)
        async with self._open_client() as client:
            group = await _described(client, name)
            if not dry_run:
                _check_empty(group, "reset it")
            positions = {
                place: each.sequence_number for place, each in (await committed(client, name)).items()
            }
            places = self._chosen(asked.body) if "topic" in asked.body else list(positions)
            if not places:
                raise invalid(f"group {name} has committed no position: `topic` says where to set one")
            if len(places) > MAX_RESET:
                raise invalid(f"a reset sets at most {MAX_RESET:,} positions: say `topic` and `partitions`")
            ends = await ends_of(client, places)
            if without := [each for each in places if each not in ends]:
                topic, number = without[0]
                raise refused(ErrorCode.NO_LEADER, f"the end of {topic}/{number} is unknown now: ask again")
            try:
                planned = changes(goal, places, positions, ends, {})
            except NoPositionError as error:
                raise invalid(f"{error}: say `to` or `number`") from None
            if not dry_run:
                await commit(client, name, {(each.topic, each.partition): each.after for each in planned})
        return {"group": name, "dry_run": dry_run, "partitions": [each.json() for each in planned]}

    def _chosen(self, body: Values) -> list[Place]:
        """The partitions that the body names."""
        name = body.text("topic")
        topic = self._broker.link.view.topic(name)
        if topic is None:
            raise refused(ErrorCode.UNKNOWN_TOPIC, f"there is no topic {name}")
        count = len(topic.partitions)
        numbers = body.integers("partitions") if "partitions" in body else list(range(count))
        if (greatest := max(numbers)) >= count:
            raise refused(ErrorCode.UNKNOWN_PARTITION, f"topic {name} has no partition {greatest}")
        return [(name, number) for number in numbers]


def state_name(code: int) -> str:
    """The state of a group, in lower case; `unknown`: one that only newer brokers know."""
    try:
        return GroupStateCode(code).name.lower()
    except ValueError:
        return "unknown"


async def _described(client: InnerClient, name: str) -> DescribedGroup:
    """The group, which must be there."""
    answer = await client.ask(
        lambda request_id: DescribeGroupsRequest(request_id=request_id, groups=[name]), DescribeGroupsResponse
    )
    (group,) = answer.groups
    if group.error:
        raise refused(group.error, group.message)
    if group.state == GroupStateCode.DEAD:
        raise refused(ErrorCode.UNKNOWN_GROUP, f"there is no consumer group {name}")
    return group


def _check_empty(group: DescribedGroup, what: str) -> None:
    """Raises ApiError while the group has members, and names them."""
    if not group.members:
        return
    named = ", ".join(
        f"{each.instance_id or each.client_name or each.member_id} ({each.host.removeprefix('/')})"
        for each in group.members[:_NAMED]
    )
    more = f" and {len(group.members) - _NAMED} more" if len(group.members) > _NAMED else ""
    message = f"group {group.group} has {len(group.members)} members, {named}{more}: stop them, then {what}"
    raise refused(ErrorCode.GROUP_NOT_EMPTY, message)


def _goal(body: Values) -> Goal:
    goals = [Goal(To(body.text("to")))] if "to" in body else []
    goals += [Goal(to, body.integer(to.value)) for to in (To.NUMBER, To.BY) if to.value in body]
    if len(goals) != 1:
        raise _one_goal()
    return goals[0]


def _one_goal() -> ApiError:
    return invalid("say where to: exactly one of `to`, `number` and `by`")


def _place(text: str) -> Place:
    """Topic and partition of a text such as `orders/7`; before all others for an empty text."""
    if not text:
        return "", -1
    topic, _, number = text.rpartition("/")
    if not topic or not (number.isascii() and number.isdigit() and len(number) <= 5):
        raise invalid("`after` takes what an answer's `next` says, such as orders/7")
    return topic, int(number)


def _member(member: GroupMember) -> Json:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id or None,
        "client": member.client_name,
        "host": member.host.removeprefix("/"),
        "epoch": member.epoch,
        "topics": list(member.subscribed),
        "partitions": [
            {"topic": each.topic, "partitions": list(each.partitions)} for each in member.assignment
        ],
    }


def _progress(
    place: Place, position: CommittedPosition | None, ends: LogEnds | None, member: str | None
) -> Json:
    number = None if position is None else position.sequence_number
    lag = expired = None
    if ends is not None and number is not None:
        lag = max(0, ends.high_water_mark + 1 - max(number, 1))
        expired = max(0, ends.first_available - max(number, 1))
    return {
        "topic": place[0],
        "partition": place[1],
        "position": number,
        "first_available": None if ends is None else ends.first_available,
        "high_water_mark": None if ends is None else ends.high_water_mark,
        "lag": lag,
        "expired": expired,
        "committed_ms": 0 if position is None else position.committed_ms,
        "member": member,
    }
