"""ListGroups (16): the groups that this broker coordinates. Tools ask every broker."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import ListedGroup as Listed
from tank_node.kafka.errors import of_group, outcome_of
from tank_node.kafka.list_slices import ListSlices
from tank_node.kafka.settling import KafkaPause
from tank_protos.generated.kafka import ListGroupsRequest, ListGroupsResponse
from tank_protos.generated.kafka.list_groups_response import ListedGroup

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_CLASSIC: Final = "classic"
_CONSUMER: Final = "consumer"
"""The types of groups: how their members speak with the coordinator."""
_PORTION: Final = 1_000
"""The groups that are written in one go: some 3 ms."""
_FLEXIBLE_SINCE: Final = 3
"""The first version in which a list begins with a varint, and a message ends in tagged fields."""


def list_groups(call: "KafkaCall", body: memoryview) -> None:
    """Answers when the list is made, which takes more than a turn of the event loop if there are many. States
    and types to list are compared without regard to case; none: all are listed."""
    request = ListGroupsRequest.decode(body, call.version)
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}

    def done(error: GroupError, listed: Sequence[Listed]) -> None:
        wanted = [
            each
            for each in listed
            if (not states or each.state.value.lower() in states) and (not types or _type_of(each) in types)
        ]
        _ListAnswer(call, error, wanted).go_on()

    groups_of(call.session.broker).list_all(done)


def _type_of(group: Listed) -> str:
    return _CLASSIC if group.is_classic else _CONSUMER


class _ListAnswer:
    """One answer, which is written in portions."""

    __slots__ = ("_call", "_code", "_groups", "_slices")

    def __init__(self, call: "KafkaCall", error: GroupError, groups: Sequence[Listed]) -> None:
        self._call = call
        self._code = of_group(error)
        self._groups = groups
        is_flexible = call.version >= _FLEXIBLE_SINCE
        # Nothing but tags stands behind the list.
        self._slices = ListSlices(
            call.version, ListGroupsResponse(), int(is_flexible), is_flexible=is_flexible
        )

    def go_on(self) -> None:
        """Writes the next portion, and sends the answer behind the last one."""
        first = self._slices.count
        portion = [
            ListedGroup(each.group_id, each.protocol_type, each.state.value, _type_of(each))
            for each in self._groups[first : first + _PORTION]
        ]
        self._slices.add(ListGroupsResponse(groups=portion), len(portion))
        if self._slices.count < len(self._groups):
            KafkaPause(self._call, self.go_on).begin()
            return
        body = self._slices.body(ListGroupsResponse(error_code=self._code))
        self._call.answer_pieces(body, outcome_of(self._code))
