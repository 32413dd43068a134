"""What each command of the controller's log does to the cluster's state. Pure.

A command is checked completely before it changes anything: a rejected command changes nothing but the index
of the state. A command that is applied twice changes nothing the second time. The time is the command's
`now_ms`.

Checks and limits are part of the log's format: a version that judged an old entry differently would make
another state out of the same log. A changed check needs a new command, or a new field of the command.
"""

from collections.abc import Callable

from tank_controller.commands import brokers, groups, levels, partitions, producers, reassignment, topics
from tank_controller.commands.iggy import exposing, iggy_groups, iggy_topics, purging, streams, tokens, users
from tank_controller.commands.levels import check_level
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.producers import known_producer as known_producer
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
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


def level_problem(state: ClusterState, command: pb.Command) -> Rejected | None:
    """The rejection of a command that older versions don't know, while one of them may be there: in the log
    such an entry would end them.
    """
    try:
        check_level(state, _LEVELS.get(command.WhichOneof("command"), feature_levels.FIRST))
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
    "create_stream": (streams.check_create_stream, streams.create_stream),
    "rename_stream": (streams.check_rename_stream, streams.rename_stream),
    "delete_stream": (streams.check_delete_stream, streams.delete_stream),
    "create_iggy_topic": (iggy_topics.check_create_iggy_topic, iggy_topics.create_iggy_topic),
    "alter_iggy_topic": (iggy_topics.check_alter_iggy_topic, iggy_topics.alter_iggy_topic),
    "purge_topic": (purging.check_purge_topic, purging.purge_topic),
    "shrink_topic": (purging.check_shrink_topic, purging.shrink_topic),
    "create_iggy_group": (iggy_groups.check_create_iggy_group, iggy_groups.create_iggy_group),
    "delete_iggy_group": (iggy_groups.check_delete_iggy_group, iggy_groups.delete_iggy_group),
    "expose_topic": (exposing.check_expose_topic, exposing.expose_topic),
    "hide_topic": (exposing.check_hide_topic, exposing.hide_topic),
    "create_user": (users.check_create_user, users.create_user),
    "delete_user": (users.check_delete_user, users.delete_user),
    "update_user": (users.check_update_user, users.update_user),
    "change_password": (users.check_change_password, users.change_password),
    "update_permissions": (users.check_update_permissions, users.update_permissions),
    "create_token": (tokens.check_create_token, tokens.create_token),
    "delete_token": (tokens.check_delete_token, tokens.delete_token),
}

IGGY_COMMANDS = frozenset(
    {
        "create_stream", "rename_stream", "delete_stream",
        "create_iggy_topic", "alter_iggy_topic", "purge_topic", "shrink_topic",
        "create_iggy_group", "delete_iggy_group", "expose_topic", "hide_topic",
        "create_user", "delete_user", "update_user", "change_password", "update_permissions",
        "create_token", "delete_token",
    }
)  # fmt: skip
"""The commands about the names of Iggy's clients, and about users."""
_LEVELS: dict[str | None, int] = dict.fromkeys(IGGY_COMMANDS, feature_levels.IGGY)
"""The feature level from which on all versions in the cluster know a command; 1 for the others."""
