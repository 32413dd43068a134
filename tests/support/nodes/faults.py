"""Faults inside a leader, which need its private names: each private name is used in one place, here."""

from collections.abc import Iterator
from contextlib import contextmanager

from tank_node.partition.leader import PartitionLeader
from tank_node.partition.partition import Partition


def leader_of(partition: Partition) -> PartitionLeader:
    """The leader's part of a partition that is led here, with followers."""
    leader = partition.leadership
    assert isinstance(leader, PartitionLeader)
    return leader


def spoil_piece_in_memory(leader: PartitionLeader) -> None:
    """The last byte of the batches that the leader has read last, and holds to push, goes bad."""
    reader = leader._reader
    piece = reader._piece
    assert piece is not None
    assert isinstance(piece.batches, bytes)
    reader._piece = piece._replace(batches=piece.batches[:-1] + b"!")


@contextmanager
def claimed_epoch(leader: PartitionLeader, epoch: int) -> Iterator[None]:
    """The leader pushes in an epoch that no controller gave it, as long as the block runs."""
    for _, place in leader.places.values():
        place.leader_epoch = epoch
    yield
    for _, place in leader.places.values():
        place.leader_epoch = leader.leader_epoch
