"""A controller as a member of its group: joins, identities, and the leader's address. No I/O.

An emptied controller asks again and again to be added, until it votes and no earlier disk of its ordinal is a
member: after a change of leader, the next leader must go on where the last one stopped.
"""

from collections.abc import Iterable, Mapping

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.birth import Founding
from tank_controller.raft.core import Raft
from tank_controller.raft.errors import ChangeRefusedError, NotLeaderError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import Configuration, EntryKind, NodeId
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.driver import RaftDriver
from tank_protos.generated import control_pb2 as pb


class RaftMember:
    """One controller of a cluster, as the other controllers see it."""

    def __init__(self, driver: RaftDriver[CommandOutcome], addresses: Mapping[int, str]) -> None:
        """`addresses`: host:port of all controllers, by ordinal, this one among them."""
        self.driver = driver
        self.addresses = addresses

    @property
    def raft(self) -> Raft:
        return self.driver.raft

    def leader_address(self) -> str:
        """The leader's host:port; empty when no leader is known."""
        leader = self.raft.leader
        return "" if leader is None else self.addresses.get(leader.ordinal, "")

    def is_missing(self, node: NodeId) -> bool:
        """Whether the node doesn't vote yet, or an earlier disk of its ordinal is still a member."""
        configuration = self.raft.configuration
        same = [member for member in configuration.members if member.ordinal == node.ordinal]
        return node not in configuration.voters or same != [node]

    def identify(self, request: pb.IdentifyRequest) -> pb.IdentifyAnswer:
        """Answers another controller's IdentityQuestion; with the founding document if it names the asker's
        disk.
        """
        asker = NodeId(request.asker.ordinal, request.asker.disk)
        raft = self.raft
        founding = self._founding()
        log = raft.log
        return pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=raft.own.ordinal, disk=raft.own.disk),
            nonce=request.nonce,
            cluster_id=raft.cluster_id,
            asker_is_member=asker in log.configuration_at(log.commit).members,
            configuration_index=min(log.configuration_index, log.commit),
            leader=self.leader_address(),
            founding=founding.entry.data if founding and asker in founding.configuration.voters else b"",
        )

    def is_removed(self, answers: Iterable[pb.IdentifyAnswer | None]) -> bool:
        """Whether the other members' answers show that this controller was removed from the cluster."""
        log = self.raft.log
        later = (
            each
            for each in answers
            if each and each.cluster_id == self.raft.cluster_id and each.configuration_index > log.commit
        )
        last = max(later, key=lambda each: each.configuration_index, default=None)
        return last is not None and not last.asker_is_member

    def _founding(self) -> Founding | None:
        """The founding document; None when the log has dropped it."""
        log = self.raft.log
        if log.base_index > 0 or not log.entries or log.entries[0].kind is not EntryKind.CONFIGURATION:
            return None
        return Founding(self.raft.cluster_id, Configuration.decode(log.entries[0].data))

    def join(self, node: NodeId) -> pb.JoinAnswer:
        """Takes the leader's next step to add a node that asks; the node asks again until it is a voter."""
        raft = self.raft
        if raft.role is not RaftRole.LEADER:
            return pb.JoinAnswer(not_leader=pb.NotLeader(leader=self.leader_address()))
        if node.ordinal not in self.addresses:
            return pb.JoinAnswer(
                kind=pb.JoinAnswer.REFUSED,
                message=f"controller {node.ordinal} is not among those that this one was configured with",
            )
        if not self.is_missing(node):
            return pb.JoinAnswer(kind=pb.JoinAnswer.ADDED)
        refused: list[Exception] = []
        self.driver.change(self._step(node), lambda result: _note(result, refused))
        message = str(refused[0]) if refused else ""
        if refused and not isinstance(refused[0], ChangeRefusedError | NotLeaderError):
            message = f"ask again: {message}"
        return pb.JoinAnswer(kind=pb.JoinAnswer.WAIT, message=message)

    def _step(self, node: NodeId) -> Change:
        configuration = self.raft.configuration
        if node in configuration.voters:
            old = next(m for m in configuration.members if m.ordinal == node.ordinal and m != node)
            return Change(MembershipChangeKind.REMOVE, old)
        if node in configuration.learners:
            return Change(MembershipChangeKind.PROMOTE, node)
        return Change(MembershipChangeKind.ADD_LEARNER, node)

    def meant(self, ordinal: int, disk: bytes) -> NodeId:
        """The member of this ordinal; `disk` may be empty when the ordinal has one member. Raises
        ChangeRefusedError.
        """
        members = self.raft.configuration.members
        found = [node for node in members if node.ordinal == ordinal and disk in (b"", node.disk)]
        if not found:
            raise ChangeRefusedError(f"controller {ordinal} is no member")
        if len(found) > 1:
            disks = " and ".join(node.disk.hex() for node in found)
            raise ChangeRefusedError(
                f"controller {ordinal} is a member with several disks, {disks}: name one of them"
            )
        return found[0]

    def leads(self) -> bool:
        """Whether this controller leads, and its state holds all that was committed."""
        return self.driver.ready

    def heirs(self) -> list[NodeId]:
        """The voters that could lead next: those that answer, longest log first."""
        return self.driver.heirs()

    def ids(self) -> tuple[NodeId, ...]:
        """The ids of all members, this one and learners among them."""
        return tuple(self.raft.configuration.members)

    def behind(self, level: int) -> list[int]:
        """Controllers, by ordinal, whose process has not said to this leader that it knows a feature level;
        learners, too. The leader itself is not listed.
        """
        raft = self.raft
        others = (node for node in raft.configuration.members if node != raft.own)
        known = {node for node, each in raft.progress.items() if each.max_level >= level}
        return sorted(node.ordinal for node in others if node not in known)

    def describe(self, problem: str) -> pb.ControllersDescription:
        """The members and their progress, for operators. `problem`: why this controller takes no commands."""
        raft = self.raft
        configuration = raft.configuration
        return pb.ControllersDescription(
            node=pb.RaftNode(ordinal=raft.own.ordinal, disk=raft.own.disk),
            cluster_id=raft.cluster_id,
            term=raft.term,
            leader=self.leader_address(),
            leads=self.driver.ready,
            commit_index=raft.log.commit,
            applied_index=self.driver.applied,
            members=[
                pb.ControllerMember(
                    node=pb.RaftNode(ordinal=member.ordinal, disk=member.disk),
                    votes=member in configuration.voters,
                    address=self.addresses.get(member.ordinal, ""),
                )
                for member in configuration.members
            ],
            problem=problem,
        )


def _note(result: object, refused: list[Exception]) -> None:
    if isinstance(result, Exception):
        refused.append(result)
