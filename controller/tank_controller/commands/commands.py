"""What each command of the controller's log does to the cluster's state. Pure.

A command is checked completely before it changes anything: a rejected command changes nothing but the index
of the state. A command that is applied twice changes nothing the second time. The time is the command's
`now_ms`.

Checks and limits are part of the log's format: a version that judged an old entry differently would make
another state out of the same log. A changed check needs a new command, or a new field of the command.
"""

from collections.abc import Callable

from tank_controller.commands import brokers, groups, levels, partitions, producers, reassignment, topics
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.producers import known_producer as known_producer
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def apply(state: ClusterState, index: int, command: pb.Command) -> CommandOutcome:
    """Applies the log's entry `index`: each entry once, in their order. Indexes have gaps where Raft has
    entries of its own.
    """
    assert index > state.index, (index, state.index)
    state.index = index
    outcome = CommandOutcome(pb.Delta(index=index))
    try:
        _check(state, command)
    except Rejected as rejection:
        outcome.rejection = rejection
        return outcome
    _, change = _COMMANDS[command.WhichOneof("command")]
    change(state, command, outcome)
    return outcome


def check(state: ClusterState, command: pb.Command) -> Rejected | None:
    """Returns the rejection that the command would get now, or None. It keeps commands out of the log that
    would be rejected anyway.
    """
    try:
        _check(state, command)
    except Rejected as rejection:
        return rejection
    return None


def _check(state: ClusterState, command: pb.Command) -> None:
    known = _COMMANDS.get(command.WhichOneof("command"))
    if known is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, "this version doesn't know the command")
    known[0](state, command)


def _check_found_cluster(state: ClusterState, command: pb.Command) -> None:
    if len(command.found_cluster.peer_key) != 16:
        raise Rejected(ErrorCode.INVALID_REQUEST, "a peer key has 16 bytes")


def _found_cluster(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    state.peer_key = state.peer_key or command.found_cluster.peer_key
    state.demands_secret = state.demands_secret or command.found_cluster.demands_secret


_Check = Callable[[ClusterState, pb.Command], None]
_Change = Callable[[ClusterState, pb.Command, CommandOutcome], None]

_COMMANDS: dict[str | None, tuple[_Check, _Change]] = {
    "found_cluster": (_check_found_cluster, _found_cluster),
    "raise_level": (levels.check_raise_level, levels.raise_level),
    "register_broker": (brokers.check_register_broker, brokers.register_broker),
    "fence_broker": (brokers.check_fence_broker, brokers.fence_broker),
    "unfence_broker": (brokers.check_unfence_broker, brokers.unfence_broker),
    "set_broker": (brokers.check_set_broker, brokers.set_broker),
    "remove_broker": (brokers.check_remove_broker, brokers.remove_broker),
    "create_topic": (topics.check_create_topic, topics.create_topic),
    "alter_topic": (topics.check_alter_topic, topics.alter_topic),
    "delete_topic": (topics.check_delete_topic, topics.delete_topic),
    "change_in_sync": (partitions.check_change_in_sync, partitions.change_in_sync),
    "report_failed": (partitions.check_report_failed, partitions.report_failed),
    "elect_leader": (partitions.check_elect_leader, partitions.elect_leader),
    "elect_lossy": (partitions.check_elect_lossy, partitions.elect_lossy),
    "reassign": (reassignment.check_reassign, reassignment.reassign),
    "finish_reassign": (reassignment.check_finish_reassign, reassignment.finish_reassign),
    "cancel_reassign": (reassignment.check_cancel_reassign, reassignment.cancel_reassign),
    "init_producer": (producers.check_init_producer, producers.init_producer),
    "commit_positions": (groups.check_commit_positions, groups.commit_positions),
    "drop_positions": (groups.check_drop_positions, groups.drop_positions),
}
