"""One request about groups on its way to another broker, which coordinates them."""

from collections.abc import Callable
from typing import Final

from tank_node.broker.forwarding import FORWARDED_VERSION, Forwarded
from tank_protos.generated.tank import (
    CommitPositionsResponse,
    DeleteGroupsResponse,
    DeletePositionsResponse,
    DescribeGroupsResponse,
    FetchPositionsResponse,
    GroupHeartbeatResponse,
    GroupRequest,
    GroupResponse,
    IggyGroupResponse,
    IggyMembersResponse,
    IggyOffsetResponse,
    IggyPositionsResponse,
    ListGroupsResponse,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message

ALL_PARTITIONS: Final = 0xFFFF
"""In `GroupRequest.partition`: all that the broker leads."""
_ANSWERS: Final[dict[int, type[Message]]] = {
    each.ID: each
    for each in (
        CommitPositionsResponse,
        FetchPositionsResponse,
        ListGroupsResponse,
        GroupHeartbeatResponse,
        DescribeGroupsResponse,
        DeleteGroupsResponse,
        DeletePositionsResponse,
        IggyMembersResponse,
        IggyPositionsResponse,
        IggyOffsetResponse,
        IggyGroupResponse,
    )
}
"""By message id: those that the table in `tank.groups` lets through. The table of all messages would import
them all, which takes a megabyte in each broker."""
_ANSWER_VERSIONS: Final = {74: 1}
"""The versions of answers between brokers, by message id; others have one layout alone."""


def answer_version(message_id: int) -> int:
    """The version in which one broker answers another for this message."""
    return _ANSWER_VERSIONS.get(message_id, 0)


class ForwardedGroupRequest(Forwarded):
    """A request about groups that goes to their coordinator."""

    def __init__(
        self,
        request: Message,
        about: GroupRequest,
        deadline_ms: int,
        answered: Callable[[Message, int], None],
        failed: Callable[[], None],
        is_right: Callable[[], bool],
    ) -> None:
        """about: the envelope, without the request. answered: takes the answer, and the coordinator's
        high-water mark. failed: called instead when there is none. is_right: whether the broker that is
        asked still coordinates the groups."""
        about.client_version = FORWARDED_VERSION
        about.message_id = request.ID
        about.payload = b"".join(request.encode())
        super().__init__(bytearray().join(frame(about.ID, about.encode())), deadline_ms)
        self._answer = _ANSWERS[request.ID]
        self._answered = answered
        self._failed = failed
        self._is_right = is_right

    def may_be_sent(self) -> bool:
        """Whether a request that waited for the connection may still go there."""
        return self._is_right()

    def answered(self, payload: memoryview) -> None:
        """Takes the coordinator's answer. Raises WireError, before any effect, when it can't be read."""
        told = GroupResponse.decode(bytes(payload))
        answer = self._answer.decode(told.payload, answer_version(self._answer.ID))
        self._answered(answer, told.mark)

    def failed(self, *, sent: bool) -> None:
        """Ends the request without an answer: the client tries again. A commit that was sent may be stored,
        which does no harm twice."""
        self._failed()
