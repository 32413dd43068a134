"""A request about stored batches on its way to the broker that leads the partition."""

from collections.abc import Callable
from typing import Generic, TypeVar

from tank_node.broker.forwarding import Forwarded
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message

R = TypeVar("R")


class ForwardedStored(Forwarded, Generic[R]):
    """One request. The leader's answer is read before anything comes of it."""

    def __init__(
        self,
        request: Message,
        deadline_ms: int,
        read: Callable[[bytes], R],
        answered: Callable[[R], None],
        failed: Callable[[bool], None],
        is_right: Callable[[], bool],
    ) -> None:
        """read: reads the answer's payload; raises WireError. failed: takes whether the leader may have got
        the request. is_right: whether a request that waited for the connection may still go there."""
        super().__init__(bytearray().join(frame(request.ID, request.encode())), deadline_ms)
        self._read = read
        self._answered = answered
        self._failed = failed
        self._is_right = is_right

    def may_be_sent(self) -> bool:
        return self._is_right()

    def answered(self, payload: memoryview) -> None:
        self._answered(self._read(bytes(payload)))

    def failed(self, *, sent: bool) -> None:
        self._failed(sent)
