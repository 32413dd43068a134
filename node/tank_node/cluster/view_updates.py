"""The controllers' updates of the view: joins those that come in parts, and calls listeners after changes."""

from collections.abc import Callable, Sequence
from enum import IntEnum

from tank_node.cluster.view import ClusterView, TopicChange, WholeState
from tank_protos.generated import control_pb2 as pb


class Update(IntEnum):
    """The effect of a message on the view."""

    INCOMPLETE = 0
    """None yet: further parts follow."""
    TAKEN = 1
    BROKERS_CHANGED = 2
    """The update is applied, and changed brokers, too."""


class MetadataWentBack(Exception):
    """The controllers' metadata end at an earlier index than this broker's view. Committed entries are never
    taken back, so the controllers' folders were restored from a backup, and the view has another history."""

    def __init__(self, theirs: int, own: int) -> None:
        super().__init__(
            f"the controllers' metadata ends at entry {theirs}, and this broker has seen entry {own}: were "
            "the controllers' folders restored from a backup? The changes since that backup are lost, and "
            "messages may be lost too; start this broker again to use the controllers' present metadata"
        )


class ViewUpdates:
    """Applies updates to the view. Listeners are called when the view has the change."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._parts: pb.Delta | None = None
        """The parts of a delta that have come."""
        self._whole: WholeState | None = None
        """The parts of a whole state that have come."""
        self.on_change: list[Callable[[TopicChange], None]] = []
        """Called with every topic that is created, altered or deleted."""
        self.on_brokers: list[Callable[[], None]] = []
        """Called when brokers came, went, or have other addresses or epochs, or were fenced or unfenced."""

    @property
    def is_incomplete(self) -> bool:
        """Whether an update has come only in part. The parts may take as much memory as the view."""
        return self._parts is not None or self._whole is not None

    def drop_parts(self) -> None:
        """Drops an incomplete update, because the stream ended: the next stream begins with it again."""
        self._parts = self._whole = None

    def take(self, update: pb.ViewUpdate) -> Update:
        """Takes a message, and returns its effect. Raises MetadataWentBack, and leaves the view unchanged."""
        if update.whole:
            return self._take_whole(update)
        delta = update.delta
        if self._parts is not None:
            self._parts.MergeFrom(delta)
            delta = self._parts
        self._parts = delta if update.more else None
        if update.more:
            return Update.INCOMPLETE
        brokers = bool(delta.brokers or delta.removed_brokers)
        self._announce(self._view.apply(delta), brokers=brokers)
        return Update.BROKERS_CHANGED if brokers else Update.TAKEN

    def _take_whole(self, update: pb.ViewUpdate) -> Update:
        whole = self._whole = self._whole or WholeState(self._view)
        whole.add(update.delta)
        if update.more:
            return Update.INCOMPLETE
        self._whole = None
        if whole.index < self._view.index:
            raise MetadataWentBack(whole.index, self._view.index)
        self._announce(self._view.replace(whole), brokers=True)
        return Update.BROKERS_CHANGED

    def _announce(self, changes: Sequence[TopicChange], *, brokers: bool) -> None:
        if brokers:
            for listener in self.on_brokers:
                listener()
        for change in changes:
            for heard in self.on_change:
                heard(change)
