"""The replicated state machine as Raft's driver wants it: entries in, outcomes and deltas out. No I/O."""

from collections.abc import Callable, Iterator

from tank_controller import limits
from tank_controller.state import commands
from tank_controller.state.outcome import Outcome
from tank_controller.state.state import ClusterState, SnapshotError
from tank_controller.state.view_parts import WHOLE_PART_BYTES
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb


class UnknownEntryError(Exception):
    """An entry that this version can't apply. To skip it would be to make another state."""


class Metadata:
    """The cluster's state on one controller. Changed by the driver alone."""

    def __init__(self, max_level: int = feature_levels.OWN.highest) -> None:
        """`max_level`: the newest feature level that this process knows."""
        self.state = ClusterState()
        self._max_level = max_level
        self.on_delta: Callable[[pb.Delta], None] = _nobody
        """Told of every entry that changed something, after the state has it."""
        self.on_restored: Callable[[], None] = _nobody_either
        """Told when the whole state was replaced by a snapshot."""

    def apply(self, index: int, data: bytes) -> Outcome:
        """One committed command. UnknownEntryError."""
        command = read_command(index, data)
        if command.raise_level.level > self._max_level:
            raise UnknownEntryError(
                f"entry {index} of the metadata raises the feature level to {command.raise_level.level}, and "
                f"this version knows up to level {self._max_level}: start a version at least as new as the "
                "other controllers'"
            )
        outcome = commands.apply(self.state, index, command)
        if changes_something(outcome.delta):
            self.on_delta(outcome.delta)
        return outcome

    def snapshot(self) -> Iterator[bytes]:
        """All of it as it is now, in pieces, between which entries may be applied."""
        return self.state.snapshot_pieces()

    def whole_view(self) -> Iterator[pb.ViewUpdate | None]:
        """What brokers need of it as it is now: messages, and None wherever others may have their turn."""
        return self.state.whole_view(limits.VIEW_PART, WHOLE_PART_BYTES)

    def restore(self, data: bytes) -> None:
        """What `snapshot` gave, joined, here or on another controller. SnapshotError."""
        state = ClusterState.load(data)
        if state.feature_level > self._max_level:
            raise SnapshotError(
                f"the metadata's snapshot is of feature level {state.feature_level}, and this version knows "
                f"up to level {self._max_level}: start a version at least as new as the one that wrote it"
            )
        self.state = state
        self.on_restored()


def read_command(index: int, data: bytes) -> pb.Command:
    """The command of the entry `index`. UnknownEntryError."""
    try:
        command = pb.Command.FromString(data)
    except Exception as error:  # the runtimes of protobuf raise different types
        raise UnknownEntryError(
            f"entry {index} of the metadata is no command: put the whole data folder back from a backup"
        ) from error
    if command.WhichOneof("command") is None:
        raise UnknownEntryError(
            f"entry {index} of the metadata was written by a newer version: start that one, or put the "
            "whole data folder back from a backup made before it ran"
        )
    return command


def changes_something(delta: pb.Delta) -> bool:
    """Whether brokers have to know of it: more than its index is there."""
    return len(delta.ListFields()) > 1


def _nobody(delta: pb.Delta) -> None:
    """Before anybody listens."""


def _nobody_either() -> None:
    """Before anybody listens."""
