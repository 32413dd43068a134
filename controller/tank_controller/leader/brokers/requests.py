"""Proposals and queries that brokers send on their streams, and the answers to them. No I/O."""

from collections.abc import Callable, Iterator

from tank_controller.commands.commands import IGGY_COMMANDS
from tank_controller.commands.groups import COORDINATED
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.brokers.streams import MAX_WAITING_PROPOSALS, Stream
from tank_controller.leader.leadership import LeaderTerm
from tank_controller.leader.proposals import Proposals, rejected
from tank_controller.state.codec import positions
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb

FROM_BROKERS = frozenset(
    {
        "create_topic", "alter_topic", "delete_topic", "init_producer", "commit_positions",
        "drop_positions",
        "change_in_sync", "report_failed", "set_broker",
        "elect_leader", "reassign", "cancel_reassign",
        *IGGY_COMMANDS,
    }
)  # fmt: skip
"""The commands that a broker may propose; others come from the controller itself, or by Admin."""
PART_BYTES = 1024 * 1024
"""The size of one part of a query's answer; a single larger item goes alone."""


class BrokerRequests:
    """Answers the brokers of one controller's streams. All calls on the driver's thread."""

    def __init__(
        self,
        proposals: Proposals,
        send_alive: Callable[[Stream], None],
        send_away: Callable[[Stream], None],
    ) -> None:
        """`send_alive` sends the state's index; `send_away` ends a stream and names the leader to it."""
        self._proposals = proposals
        self._driver = proposals.driver
        self._metadata = proposals.metadata
        self._send_alive = send_alive
        self._send_away = send_away

    def propose(self, term: LeaderTerm, stream: Stream, proposal: pb.BrokerProposal) -> None:
        """Proposes a broker's command; the stream gets the outcome, or ends where none is known."""
        command = proposal.command
        kind = command.WhichOneof("command")
        commits = kind == "commit_positions"
        if kind not in FROM_BROKERS:
            _answer(
                stream, proposal, rejected(ErrorCode.INVALID_REQUEST, "brokers may not propose this command")
            )
        elif proposal.validate_only:
            _answer(stream, proposal, self._proposals.judge(proposal.command))
        elif stream.waiting >= MAX_WAITING_PROPOSALS:
            _answer(stream, proposal, rejected(ErrorCode.OVERLOADED, "too much waits: ask again"))
        elif commits and (late := term.positions.refusal(self._metadata.state, stream, proposal)):
            self._driver.figures.refused_proposals["late_position"] += 1
            _answer(stream, proposal, late)
        else:
            try:
                command = term.tasks.by_ends(self._metadata.state, command)
            except Rejected as rejection:
                _answer(stream, proposal, rejected(rejection.error, rejection.message))
                return
            stream.waiting += 1

            def done(outcome: CommandOutcome) -> None:
                stream.waiting -= 1
                if outcome.rejection is not None and outcome.rejection.is_unsure:
                    # without an outcome the stream ends, and the broker asks the next leader again
                    self._send_away(stream)
                else:
                    _answer(stream, proposal, outcome)

            end = self._driver.raft.log.last_index
            self._proposals.propose(command, done)
            if commits and self._driver.raft.log.last_index > end:  # otherwise the command was refused
                commit = proposal.command.commit_positions
                term.positions.appended(self._metadata.state, stream, commit, end + 1)

    def query(self, stream: Stream, query: pb.BrokerQuery) -> None:
        """Answers a broker's question when the state holds all that was committed when it came."""
        if stream.waiting >= MAX_WAITING_PROPOSALS:
            _refuse(stream, query, Rejected(ErrorCode.OVERLOADED, "too much waits: ask again"))
            return
        stream.waiting += 1

        def done(problem: Rejected | None) -> None:
            stream.waiting -= 1
            if problem is None:
                if query.HasField("view") and stream.follows:
                    # entries without a delta, such as positions, raise the index, too
                    self._send_alive(stream)
                for part in query_answers(self._metadata.state, query):
                    stream.send(pb.BrokerDown(answer=part))
            elif problem.is_unsure:
                self._send_away(stream)
            else:  # the query failed, the stream goes on
                _refuse(stream, query, problem)

        self._proposals.read(done)


def _answer(stream: Stream, proposal: pb.BrokerProposal, outcome: CommandOutcome) -> None:
    stream.send(pb.BrokerDown(outcome=outcome.as_message(proposal.request_id)))


def _refuse(stream: Stream, query: pb.BrokerQuery, why: Rejected) -> None:
    refusal = pb.QueryAnswer(request_id=query.request_id, error=why.error, message=why.message)
    stream.send(pb.BrokerDown(answer=refusal))


def query_answers(state: ClusterState, query: pb.BrokerQuery) -> list[pb.QueryAnswer]:
    """The parts of the answer, at least one; all but the last say that more follow."""
    match query.WhichOneof("question"):
        case "positions":
            found = _refusal(state, query.positions.to_move) or _positions(state, query.positions)
        case "groups":
            found = _refusal(state, query.groups.to_move) or [
                pb.QueryAnswer(groups=names) for names in _portions(sorted(state.groups))
            ]
        case "view":
            found = [pb.QueryAnswer(index=state.index)]
        case _:
            message = "this version doesn't know the query"
            found = [pb.QueryAnswer(error=ErrorCode.INVALID_REQUEST, message=message)]
    for part in found:
        part.request_id = query.request_id
        part.more = part is not found[-1]
    return found


def _refusal(state: ClusterState, to_move: bool) -> list[pb.QueryAnswer]:
    """Why positions are not shown: those that are here may be old ones, or be gone, from the level on at
    which coordinators keep them. They alone see them then, to take them over."""
    if (state.feature_level >= NATIVE_GROUPS) is to_move:
        return []
    return [pb.QueryAnswer(error=ErrorCode.OVERLOADED, message=COORDINATED)]


def _positions(state: ClusterState, query: pb.PositionsQuery) -> list[pb.QueryAnswer]:
    held = state.groups.get(query.group)
    if held is None:
        return [pb.QueryAnswer(error=ErrorCode.UNKNOWN_GROUP, message="the group has no positions yet")]
    if any(topic_id not in state.topics for topic_id in query.topic_ids):
        # The broker's view may be behind: an answer without positions would send the group back to the
        # beginning.
        return [pb.QueryAnswer(error=ErrorCode.UNKNOWN_TOPIC, message="there is no such topic")]
    wanted = held.keys() & set(query.topic_ids) if query.topic_ids else held.keys()
    found = list(positions({topic_id: held[topic_id] for topic_id in sorted(wanted)}))
    parts = [pb.QueryAnswer()]
    size = 0
    for position in found:
        size += position.ByteSize() + 4
        if size > PART_BYTES and parts[-1].positions:
            parts.append(pb.QueryAnswer())
            size = position.ByteSize() + 4
        parts[-1].positions.append(position)
    return parts


def _portions(names: list[str]) -> Iterator[list[str]]:
    """The names in portions of bounded size; at least one, which may be empty."""
    portion: list[str] = []
    size = 0
    for name in names:
        size += len(name.encode()) + 4
        if size > PART_BYTES and portion:
            yield portion
            portion, size = [], len(name.encode()) + 4
        portion.append(name)
    yield portion
