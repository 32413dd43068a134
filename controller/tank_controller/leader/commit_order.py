"""The order of committed positions: a position that a client sent before a later one was stored is refused.
Pure.

A broker names with each proposal the log entry that it had seen when its client asked. When a client gave up
on one broker, and another broker answered it, the answer was a later entry than the first broker had named:
proposals that still arrive from the first broker are refused (docs/decisions/0018).
"""

from collections import OrderedDict
from collections.abc import Iterator

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.brokers.streams import Stream
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import group_name_problem

Place = tuple[str, int, int]
"""Group, topic id, partition."""


class PositionOrder:
    """The order of one leader's term."""

    def __init__(self) -> None:
        self._floor = 0
        """Positions that are missing in `_last` were not set behind this entry in this term. Positions of
        earlier terms need no order: their streams have ended, so every present request is later.
        """
        self._last: OrderedDict[Place, tuple[object, int]] = OrderedDict()
        """By position: the mark of the stream that set it last in this term, and the log entry, which may be
        uncommitted; the oldest first. Not a plain dict, which finds its first key slowly after many removals.
        """

    def refusal(
        self, state: ClusterState, stream: Stream, proposal: pb.BrokerProposal
    ) -> CommandOutcome | None:
        """The refusal of positions whose client may have been answered by another broker since; or None.

        The outcome holds the state's index: a request that names this index is accepted.
        """
        commit = proposal.command.commit_positions
        broker = state.brokers.get(stream.broker_id)
        if broker is None or broker.fenced:
            # After so long a silence, the broker has answered its client without the controllers, and named
            # no entry.
            message = "the broker's stream was silent for too long: commit again"
        elif proposal.seen_index and self._is_late(stream, commit, proposal.seen_index):
            message = "the group has committed through another broker meanwhile: commit again"
        else:
            return None
        return CommandOutcome(pb.Delta(index=state.index), rejection=Rejected(ErrorCode.TIMED_OUT, message))

    def _is_late(self, stream: Stream, commit: pb.CommitPositions, seen_index: int) -> bool:
        """Whether another stream may have set one of the positions behind this entry."""
        forgotten = None, self._floor
        for place in _places(commit):
            setter, index = self._last.get(place, forgotten)
            if seen_index < index and setter is not stream.mark:
                return True
        return False

    def appended(self, state: ClusterState, stream: Stream, commit: pb.CommitPositions, index: int) -> None:
        """Notes positions that the log holds as this entry, not yet committed.

        Positions of topics that the state doesn't have will be refused, and are not noted.
        """
        if len(commit.positions) > limits.MAX_POSITIONS_PER_COMMAND or group_name_problem(commit.group):
            return
        last = stream.mark, index
        for place in _places(commit):
            _, topic_id, partition = place
            topic = state.topics.get(topic_id)
            if topic is not None and partition < len(topic.partitions):
                self._last[place] = last
                self._last.move_to_end(place)
        while len(self._last) > limits.MAX_POSITIONS_IN_ORDER:
            _, (_, forgotten) = self._last.popitem(last=False)
            self._floor = max(self._floor, forgotten)


def _places(commit: pb.CommitPositions) -> Iterator[Place]:
    group = commit.group  # one string for all positions: protobuf makes a new one at each access
    return ((group, position.topic_id, position.partition) for position in commit.positions)
