"""DeleteGroups (42): deletes groups without members, with their committed offsets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka.errors import first_error, of_group, outcome_of
from tank_protos.generated.kafka import (
    DeletableGroupResult,
    DeletableGroupResultCollection,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def delete_groups(call: "KafkaCall", body: memoryview) -> None:
    """Answers with a result for each group, when the deletions are stored."""
    request = DeleteGroupsRequest.decode(body, call.version)
    names = list(dict.fromkeys(request.groups_names))

    def done(results: Mapping[str, GroupError]) -> None:
        found = DeletableGroupResultCollection(
            DeletableGroupResult(name, of_group(results[name])) for name in names
        )
        call.answer(DeleteGroupsResponse(results=found), outcome_of(first_error(found)))

    groups_of(call.session.broker).delete(names, done)
