"""The controllers' real storage and state machine, whose every step the books hear of."""

from collections.abc import Iterator, Sequence

from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.messages import HardState, LogEntry, NodeId, Snapshot
from tank_controller.raft_node.storage import RaftStorage
from tank_protos.generated import control_pb2 as pb
from tests.simulation.books.metadata_books import MetadataBooks
from tests.simulation.books.raft_books import RaftBooks


class BookedStorage(RaftStorage):
    """The real one; the books hear what it promised to keep."""

    books: RaftBooks

    def persist(self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[LogEntry]) -> None:
        """As the real one."""
        super().persist(hard, snapshot, entries)
        self.books.persisted(NodeId(self.ordinal, self.disk), hard, snapshot, entries)

    ordinal: int


class BookedMetadata(Metadata):
    """The replicated state machine; the books hear of every entry that it takes."""

    def __init__(self, name: str, books: MetadataBooks, max_level: int) -> None:
        super().__init__(max_level)
        self._name = name
        self._books = books

    def apply(self, index: int, data: bytes) -> CommandOutcome:
        """As the real one."""
        outcome = super().apply(index, data)
        self._books.applied(self._name, self.state, index, data, outcome)
        return outcome

    def snapshot(self) -> Iterator[bytes]:
        """As the real one, in many pieces, between which much may happen."""
        return self._noted(self.state.index, self.state.snapshot_pieces(1))

    def whole_view(self) -> Iterator[pb.ViewUpdate | None]:
        """As the real one: each topic in a message of its own, and a turn for others behind each."""
        return self.state.whole_view(1, 1)

    def _noted(self, index: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
        made = []
        for piece in pieces:
            made.append(piece)
            yield piece
        self._books.snapshot_made(self._name, index, b"".join(made))

    def restore(self, data: bytes) -> None:
        """As the real one."""
        super().restore(data)
        self._books.snapshot_made(self._name, self.state.index, self.state.snapshot())
