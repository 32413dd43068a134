"""Commands that create and delete groups of Iggy's clients. Pure."""

from tank_controller import limits
from tank_controller.commands.iggy.iggy_checks import (
    check_iggy_name,
    check_number,
    iggy_topic,
    is_made_by,
    number_for,
)
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.iggy.iggy_codec import group_message, maker_of
from tank_controller.state.iggy.iggy_group import IggyGroup
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def check_create_iggy_group(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_iggy_group
    topic, _ = iggy_topic(state, create.topic_id)
    if _made_before(state, create) is not None:
        return
    check_iggy_name(create.name, "group")
    groups = state.iggy.groups.get(topic.topic_id, {})
    if create.name in state.iggy.group_numbers.get(topic.topic_id, ()):
        raise Rejected(ErrorCode.GROUP_EXISTS, f"the topic has a group {create.name} already")
    check_number(_chosen(create), groups, "group")
    if len(groups) >= limits.MAX_IGGY_GROUPS_OF_A_TOPIC:
        message = f"a topic has at most {limits.MAX_IGGY_GROUPS_OF_A_TOPIC} groups: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)
    if state.iggy.group_count >= limits.MAX_IGGY_GROUPS:
        message = f"all topics together have at most {limits.MAX_IGGY_GROUPS} groups: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def create_iggy_group(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a group of a topic."""
    create = command.create_iggy_group
    group = _made_before(state, create)
    if group is None:
        number = number_for(_chosen(create), state.iggy.groups.get(create.topic_id, ()))
        group = IggyGroup(number, create.name, create.topic_id, state.index, maker_of(create))
        state.iggy.put_group(group)
        outcome.delta.iggy_groups.append(group_message(group))
    outcome.topic_id, outcome.number = create.topic_id, group.number


def check_delete_iggy_group(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the group is gone."""
    _group(state, command.delete_iggy_group)


def delete_iggy_group(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Deletes a group. Its coordinator ends its members, and forgets its positions."""
    group = _group(state, command.delete_iggy_group)
    state.iggy.remove_group(group)
    outcome.topic_id, outcome.number = group.topic_id, group.number
    outcome.delta.deleted_iggy_groups.add(topic_id=group.topic_id, number=group.number)


def _group(state: ClusterState, delete: pb.DeleteIggyGroup) -> IggyGroup:
    iggy_topic(state, delete.topic_id)
    group = state.iggy.groups.get(delete.topic_id, {}).get(delete.number)
    if group is None or group.born != delete.born:
        raise Rejected(ErrorCode.UNKNOWN_GROUP, "there is no such group")
    return group


def _made_before(state: ClusterState, create: pb.CreateIggyGroup) -> IggyGroup | None:
    """The group that this very command has created, if it is a repeat."""
    number = state.iggy.group_numbers.get(create.topic_id, {}).get(create.name)
    group = None if number is None else state.iggy.groups[create.topic_id][number]
    return group if group is not None and is_made_by(group.maker, create) else None


def _chosen(create: pb.CreateIggyGroup) -> int | None:
    return create.number if create.HasField("number") else None
