"""Membership changes, one at a time, and the transfer of leadership. Pure.

Each node uses a new configuration as soon as it is in its log (see RaftLog.configuration). Two consecutive
configurations differ by one voter, so any two of their majorities share a node.
"""

from dataclasses import dataclass
from enum import Enum

from tank_controller.raft.errors import ChangeRefusedError, MalformedMessageError, UnansweredError
from tank_controller.raft.messages import Append, Configuration, EntryKind, LogEntry, NodeId, TimeoutNow
from tank_controller.raft.progress import Flow, MemberProgress
from tank_controller.raft.quorum import majority
from tank_controller.raft.reads import acked
from tank_controller.raft.state import RaftState


class MembershipChangeKind(Enum):
    """The kinds of membership changes."""

    ADD_LEARNER = "add learner"
    PROMOTE = "promote"
    """A learner that has caught up becomes a voter."""
    REMOVE = "remove"


@dataclass(slots=True, frozen=True)
class Change:
    """One membership change. A node with an emptied disk comes back by three: add it as a learner, promote
    it, remove the old one.
    """

    kind: MembershipChangeKind
    node: NodeId


def check_data(entry: LogEntry) -> None:
    """Raises MalformedMessageError for a configuration entry that can't be read."""
    if entry.kind is EntryKind.CONFIGURATION:
        try:
            Configuration.decode(entry.data)
        except ValueError as error:
            raise MalformedMessageError(f"entry {entry.index}: {error}") from error


def changed(raft: RaftState, change: Change) -> Configuration:
    """Returns the configuration after a change; called at the leader. Raises ChangeRefusedError."""
    log = raft.log
    if not raft.own_term_committed:
        raise ChangeRefusedError("this leader has committed nothing yet: ask again")
    if log.configuration_index > log.commit:
        raise ChangeRefusedError("another change is under way: ask again when it is committed")
    new = _after(raft.configuration, change)
    if change.kind is MembershipChangeKind.PROMOTE:
        progress = raft.progress[change.node]
        if progress.flow is not Flow.REPLICATE or (
            progress.matched + raft.settings.promote_within_entries < log.last_index
        ):
            raise ChangeRefusedError(f"{change.node} has not caught up: ask again")
        there = sum(_is_there(raft, voter) for voter in new.voters)
        if there < majority(len(new.voters)):
            raise ChangeRefusedError(f"only {there} of the new {len(new.voters)} voters answer")
    elif new.voters != raft.configuration.voters:
        _check_who_stays(raft, change.node, new.voters)
    return new


def _check_who_stays(raft: RaftState, leaves: NodeId, voters: tuple[NodeId, ...]) -> None:
    """Raises UnansweredError unless a majority of the remaining voters answers. Earlier answers don't count,
    because a voter's disk may be gone since; the next heartbeats ask all of them.
    """
    began = raft.removals.get(leaves)
    if began is None:
        raft.read_round += 1
        began = raft.removals[leaves] = raft.read_round
    there = sum(acked(raft, voter) >= began for voter in voters)
    if there < majority(len(voters)):
        raise UnansweredError(f"only {there} of the {len(voters)} voters that stay have answered: ask again")
    del raft.removals[leaves]


def _is_there(raft: RaftState, node: NodeId) -> bool:
    return node == raft.own or raft.progress[node].active


def _after(old: Configuration, change: Change) -> Configuration:
    node = change.node
    match change.kind:
        case MembershipChangeKind.ADD_LEARNER:
            if node in old.members:
                raise ChangeRefusedError(f"{node} is a member already")
            return Configuration(old.voters, tuple(sorted((*old.learners, node))))
        case MembershipChangeKind.PROMOTE:
            if node not in old.learners:
                raise ChangeRefusedError(f"{node} is no learner")
            learners = tuple(learner for learner in old.learners if learner != node)
            return Configuration(tuple(sorted((*old.voters, node))), learners)
        case MembershipChangeKind.REMOVE:
            if node not in old.members:
                raise ChangeRefusedError(f"{node} is no member")
            if old.voters == (node,):
                raise ChangeRefusedError("the last voter stays")
            return Configuration(
                tuple(voter for voter in old.voters if voter != node),
                tuple(learner for learner in old.learners if learner != node),
            )


def follow(raft: RaftState) -> None:
    """Makes the leader's progress records those of the members in force."""
    members = {node for node in raft.configuration.members if node != raft.own}
    for gone in raft.progress.keys() - members:
        del raft.progress[gone]
    for new in members - raft.progress.keys():
        raft.progress[new] = MemberProgress(raft.log.last_index + 1)
    if raft.transfer_target is not None and raft.transfer_target not in raft.configuration.voters:
        raft.transfer_target = None


def after_commit(raft: RaftState) -> None:
    """A removed leader goes on until its removal is committed; then the voter with the longest log takes
    over.
    """
    if raft.own in raft.configuration.voters or raft.log.configuration_index > raft.log.commit:
        return
    log = raft.log
    voters = [node for node in raft.configuration.voters if node in raft.progress]
    for node in voters:
        matched = raft.progress[node].matched
        term = log.term(matched)
        if term is not None:  # the members learn of the commit now, not from the next leader
            raft.send(node, Append(matched, term, (), min(log.commit, matched)))
    heir = max(voters, key=lambda node: raft.progress[node].matched, default=None)
    if heir is not None and raft.progress[heir].matched == log.last_index:
        raft.send(heir, TimeoutNow())
    raft.become_follower(raft.term, None)


def transfer(raft: RaftState, target: NodeId) -> None:
    """Begins to hand leadership over, which happens once the target has the whole log. Given up after an
    election timeout.
    """
    if target in (raft.own, raft.transfer_target):
        return
    if target not in raft.configuration.voters:
        raise ChangeRefusedError(f"{target} is no voter")
    raft.transfer_target = target
    raft.election_elapsed = 0
    if raft.progress[target].matched == raft.log.last_index:
        raft.send(target, TimeoutNow())
