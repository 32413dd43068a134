"""The whole state on its way to brokers whose views lack too much of it, a piece at each tick. No I/O.

A million partitions take the leader seconds to write down. Brokers that come together share one image of the
state; who comes later waits for the next.
"""

from collections.abc import Callable, Iterator

from tank_controller.leader.streams import Stream
from tank_controller.state.machine import Metadata
from tank_protos.generated import control_pb2 as pb


class WholeViews:
    """One leader's."""

    def __init__(self, metadata: Metadata, brought: Callable[[Stream, int], None]) -> None:
        """`brought` is told that a stream has been sent all of the state as it was at this index."""
        self._metadata = metadata
        self._brought = brought
        self._waiting: list[Stream] = []
        """For the next image."""
        self._streams: list[Stream] = []
        """Those that are sent the present one."""
        self._updates: Iterator[pb.ViewUpdate | None] | None = None
        """What is left of it."""
        self._index = 0

    def bring(self, stream: Stream) -> None:
        """Begins at once, if nothing is under way: a small state is whole before this returns."""
        self._waiting.append(stream)
        if self._updates is None:
            self.go_on()

    def go_on(self) -> None:
        """One more piece."""
        self._streams = [stream for stream in self._streams if stream.open]
        if not self._streams and not self._begin():
            return
        assert self._updates is not None
        for update in self._updates:
            if update is None:
                return
            message = pb.BrokerDown(view=update)
            for stream in self._streams:
                stream.send(message)
        streams, self._streams, self._updates = self._streams, [], None
        for stream in streams:
            if stream.open:
                self._brought(stream, self._index)

    def _begin(self) -> bool:
        """An image for those that wait; whether there are any."""
        self._streams = [stream for stream in self._waiting if stream.open]
        self._waiting.clear()
        self._updates = None
        if not self._streams:
            return False
        self._index = self._metadata.state.index
        self._updates = self._metadata.whole_view()
        return True
