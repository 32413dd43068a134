"""In which order the leader takes committed positions: none that was sent before a later one was kept. Pure.

A broker says with each proposal which log entry it had heard of when its client asked. A client that has
given up on one broker and is answered by another was answered by a later entry than the first can have heard
of before: what still comes from there is refused (docs/decisions/0018).
"""

from collections import OrderedDict
from collections.abc import Iterator

from tank_controller import limits
from tank_controller.leader.streams import Stream
from tank_controller.state.outcome import Outcome, Rejected
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import group_name_problem

Place = tuple[str, int, int]
"""Group, topic id, partition."""


class PositionOrder:
    """One leader's, for one term."""

    def __init__(self) -> None:
        self._floor = 0
        """No position that is not in `_last` was set behind it in this term. What earlier terms set needs no
        order: what comes now was asked for since, or it would have ended with its stream."""
        self._last: OrderedDict[Place, tuple[object, int]] = OrderedDict()
        """Whose stream (its mark) set a position last in this term, and by which log entry, which may not be
        committed yet; the longest unset first. Not a dict: to find the first of one takes as long as many
        were taken off its front."""

    def refusal(self, state: ClusterState, stream: Stream, proposal: pb.BrokerProposal) -> Outcome | None:
        """Why its positions are not to be kept: its client may have been answered by another broker since.

        The outcome says how far the state is. Who asks after having heard of it is taken.
        """
        commit = proposal.command.commit_positions
        broker = state.brokers.get(stream.broker_id)
        if broker is None or broker.fenced:
            # Silent for so long, it has told its client: all that is known of one that names no entry.
            message = "the line was silent: ask again"
        elif proposal.seen_index and self._is_late(stream, commit, proposal.seen_index):
            message = "another broker kept a position of the group meanwhile: ask again"
        else:
            return None
        return Outcome(pb.Delta(index=state.index), rejection=Rejected(ErrorCode.TIMED_OUT, message))

    def _is_late(self, stream: Stream, commit: pb.CommitPositions, seen_index: int) -> bool:
        """Another stream may have set one behind this entry. A stream's own come in their order."""
        forgotten = None, self._floor
        for place in _places(commit):
            setter, index = self._last.get(place, forgotten)
            if seen_index < index and setter is not stream.mark:
                return True
        return False

    def appended(self, state: ClusterState, stream: Stream, commit: pb.CommitPositions, index: int) -> None:
        """The log has it as this entry, on its way to be committed.

        What will not be kept takes no room here. The state knows each topic that a broker can know of.
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
    group = commit.group  # one string for all of them: each look makes another
    return ((group, position.topic_id, position.partition) for position in commit.positions)
