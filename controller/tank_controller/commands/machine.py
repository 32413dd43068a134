"""The replicated state machine with the interface that Raft's driver needs: entries in, outcomes and deltas
out. No I/O.
"""

from collections.abc import Callable, Iterator

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.state import ClusterState, SnapshotError
from tank_controller.state.view_parts import WHOLE_PART_BYTES
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb


class UnknownEntryError(Exception):
    """An entry that this version can't apply. To skip it would make this state differ from the other
    controllers' states.
    """


class Metadata:
    """The cluster's state on one controller. Only the driver changes it."""

    def __init__(self, max_level: int = feature_levels.OWN.highest) -> None:
        """`max_level`: the newest feature level that this process knows."""
        self.state = ClusterState()
        self._max_level = max_level
        self.on_delta: Callable[[pb.Delta], None] = _ignore_delta
        """Called with the delta of every entry that changed something, once the state contains the change."""
        self.on_restored: Callable[[], None] = _ignore_restored
        """Called when a snapshot has replaced the whole state."""

    def apply(self, index: int, data: bytes) -> CommandOutcome:
        """Applies one committed command. Raises UnknownEntryError."""
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
        """The present state in pieces; entries may be applied between the pieces."""
        return self.state.snapshot_pieces()

    def whole_view(self) -> Iterator[pb.ViewUpdate | None]:
        """The present state as messages for brokers; None after each piece, where the caller may pause."""
        return self.state.whole_view(limits.VIEW_PART, WHOLE_PART_BYTES)

    def restore(self, data: bytes) -> None:
        """Takes the joined pieces of a `snapshot`, of any controller. Raises SnapshotError."""
        state = ClusterState.load(data, self._max_level)
        if state.feature_level > self._max_level:
            raise SnapshotError(
                f"the metadata's snapshot is of feature level {state.feature_level}, and this version knows "
                f"up to level {self._max_level}: start a version at least as new as the one that wrote it"
            )
        self.state = state
        self.on_restored()


def read_command(index: int, data: bytes) -> pb.Command:
    """Reads the command of the entry `index`. Raises UnknownEntryError."""
    try:
        command = pb.Command.FromString(data)
    except Exception as error:  # the runtimes of protobuf raise different types
        raise UnknownEntryError(
            f"entry {index} of the metadata can't be read as a command: put the whole data folder back "
            f"from a backup"
        ) from error
    if command.WhichOneof("command") is None:
        raise UnknownEntryError(
            f"entry {index} of the metadata was written by a newer version: start that version, or put the "
            "whole data folder back from a backup made before it ran"
        )
    return command


def changes_something(delta: pb.Delta) -> bool:
    """Whether the delta holds more than its index, and so concerns brokers."""
    return len(delta.ListFields()) > 1


def _ignore_delta(delta: pb.Delta) -> None:
    """The listener until another one is set."""


def _ignore_restored() -> None:
    """The listener until another one is set."""
