"""How brokers' views get the state: deltas as they are applied, or the whole state. No I/O."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tank_controller.commands.machine import Metadata
from tank_controller.leader.brokers.streams import Stream
from tank_controller.state.view_parts import view_updates
from tank_protos.generated import control_pb2 as pb

HISTORY_BYTES = 16 * 1024 * 1024
HISTORY_DELTAS = 100_000
"""How many deltas are kept for brokers that come back; a broker that lacks more gets the whole state."""


@dataclass(slots=True, frozen=True)
class _Kept:
    index: int
    messages: list[pb.BrokerDown]
    size: int


class DeltaHistory:
    """The last deltas, ready to be sent."""

    def __init__(self, index: int) -> None:
        self.complete_from = index
        """The history has all deltas behind this index."""
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    def add(self, delta: pb.Delta) -> list[pb.BrokerDown]:
        """Keeps a delta, and forgets the oldest. Returns the delta's messages."""
        messages = [pb.BrokerDown(view=update) for update in view_updates(delta)]
        kept = _Kept(delta.index, messages, delta.ByteSize())
        self._kept.append(kept)
        self._bytes += kept.size
        while self._bytes > HISTORY_BYTES or len(self._kept) > HISTORY_DELTAS:
            oldest = self._kept.popleft()
            self._bytes -= oldest.size
            self.complete_from = oldest.index
        return messages

    def since(self, index: int) -> list[pb.BrokerDown] | None:
        """The messages of all deltas behind an index; None when some of them were forgotten."""
        if index < self.complete_from:
            return None
        return [message for kept in self._kept if kept.index > index for message in kept.messages]


class WholeViews:
    """The whole state on its way to brokers whose views lack too many deltas, a piece at each tick.

    Writing down a million partitions takes the leader seconds. Brokers that come together share one image of
    the state; a broker that comes later waits for the next image.
    """

    def __init__(self, metadata: Metadata, brought: Callable[[Stream, int], None]) -> None:
        """`brought` is called when a stream has been sent the whole state as of this index."""
        self._metadata = metadata
        self._brought = brought
        self._waiting: list[Stream] = []
        """The streams that wait for the next image."""
        self._streams: list[Stream] = []
        """The streams that are sent the present image."""
        self._updates: Iterator[pb.ViewUpdate | None] | None = None
        """The rest of the present image."""
        self._index = 0

    def bring(self, stream: Stream) -> None:
        """Sends the whole state to a stream. Begins at once if no image is under way; a small state is sent
        before this returns.
        """
        self._waiting.append(stream)
        if self._updates is None:
            self.go_on()

    def go_on(self) -> None:
        """Sends one more piece."""
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
        """Begins an image for the streams that wait; returns whether there are any."""
        self._streams = [stream for stream in self._waiting if stream.open]
        self._waiting.clear()
        self._updates = None
        if not self._streams:
            return False
        self._index = self._metadata.state.index
        self._updates = self._metadata.whole_view()
        return True


class BrokerViews:
    """Sends the state to the views of registered brokers. All calls on the driver's thread."""

    def __init__(self, metadata: Metadata, streams: Mapping[int, Stream]) -> None:
        """`streams`, by broker id, are those that deltas go to."""
        self._metadata = metadata
        self._streams = streams
        self._history = DeltaHistory(metadata.state.index)
        self._whole = WholeViews(metadata, self._follow)

    def begin(self, stream: Stream, view_index: int) -> None:
        """Brings a view from this index to the present, and sends it every later delta. 0 is an empty
        view.
        """
        if 0 < view_index <= self._metadata.state.index and self._history.complete_from <= view_index:
            self._follow(stream, view_index)
        else:
            self._whole.bring(stream)

    def go_on(self) -> None:
        """Sends one more piece of the whole state to the views that need it. Called at each tick."""
        self._whole.go_on()

    def send(self, delta: pb.Delta) -> list[Stream]:
        """Sends a delta that was applied to all streams that get deltas, and returns these streams."""
        messages = self._history.add(delta)
        following = [stream for _, stream in sorted(self._streams.items()) if stream.follows]
        for stream in following:
            for message in messages:
                stream.send(message)
        return following

    def alive(self, stream: Stream, now_ms: int) -> pb.ViewUpdate:
        """The leader's heartbeat: the index of the state; an empty part while the view gets the whole
        state.
        """
        if not stream.follows:
            return pb.ViewUpdate(whole=True, more=True, said_ms=now_ms)
        return pb.ViewUpdate(delta=pb.Delta(index=self._metadata.state.index), said_ms=now_ms)

    def forget_streams(self) -> None:
        """All streams have ended: whole states under way are dropped."""
        self._whole = WholeViews(self._metadata, self._follow)

    def restored(self) -> None:
        """The state was replaced by a snapshot: no delta leads from the old one to it."""
        self._history = DeltaHistory(self._metadata.state.index)

    def _follow(self, stream: Stream, index: int) -> None:
        """Sends a view of this index the deltas behind it; from now on the stream gets every delta."""
        deltas = self._history.since(index)
        if deltas is None:
            stream.end()  # too many deltas came while it got the whole state: the broker connects again
            return
        for message in deltas:
            stream.send(message)
        stream.follows = True
