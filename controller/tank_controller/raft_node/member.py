"""What a controller is beside Raft's core: who may join, who is who, where the leader is. No I/O.

An emptied controller goes on asking to be added until it votes, and no other disk of its ordinal is a member:
a leader that changes in between would leave it a learner for ever.
"""

from collections.abc import Iterable, Mapping

from tank_controller.raft.birth import Founding
from tank_controller.raft.core import Raft
from tank_controller.raft.errors import ChangeRefusedError, NotLeaderError
from tank_controller.raft.membership import Change, ChangeKind
from tank_controller.raft.messages import Configuration, EntryKind, NodeId
from tank_controller.raft.state import Role
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.state.outcome import Outcome
from tank_protos.generated import control_pb2 as pb


class Member:
    """One controller of a cluster, as the others see it."""

    def __init__(self, driver: RaftDriver[Outcome], addresses: Mapping[int, str]) -> None:
        """host:port of all controllers, by ordinal, this one among them."""
        self.driver = driver
        self.addresses = addresses

    @property
    def raft(self) -> Raft:
        return self.driver.raft

    def leader_address(self) -> str:
        """host:port; empty when nobody knows who leads."""
        leader = self.raft.leader
        return "" if leader is None else self.addresses.get(leader.ordinal, "")

    def is_missing(self, node: NodeId) -> bool:
        """Whether it doesn't vote yet, or the disk that its ordinal had before still counts."""
        configuration = self.raft.configuration
        same = [member for member in configuration.members if member.ordinal == node.ordinal]
        return node not in configuration.voters or same != [node]

    def identify(self, request: pb.IdentifyRequest) -> pb.IdentifyAnswer:
        """To another controller's question; the founding document for a disk that it names."""
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
        """Whether this one was taken out of its cluster, by what the others say: nobody sends it that."""
        log = self.raft.log
        later = (
            each
            for each in answers
            if each and each.cluster_id == self.raft.cluster_id and each.configuration_index > log.commit
        )
        last = max(later, key=lambda each: each.configuration_index, default=None)
        return last is not None and not last.asker_is_member

    def _founding(self) -> Founding | None:
        """As long as the log has it."""
        log = self.raft.log
        if log.base_index > 0 or not log.entries or log.entries[0].kind is not EntryKind.CONFIGURATION:
            return None
        return Founding(self.raft.cluster_id, Configuration.decode(log.entries[0].data))

    def join(self, node: NodeId) -> pb.JoinAnswer:
        """The leader's next step to bring in one that asks; it asks again until it is in."""
        raft = self.raft
        if raft.role is not Role.LEADER:
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
            return Change(ChangeKind.REMOVE, old)
        if node in configuration.learners:
            return Change(ChangeKind.PROMOTE, node)
        return Change(ChangeKind.ADD_LEARNER, node)

    def meant(self, ordinal: int, disk: bytes) -> NodeId:
        """The member of this ordinal; the disk may be left out where there is one. ChangeRefusedError."""
        members = self.raft.configuration.members
        found = [node for node in members if node.ordinal == ordinal and disk in (b"", node.disk)]
        if not found:
            raise ChangeRefusedError(f"controller {ordinal} is no member")
        if len(found) > 1:
            disks = " and ".join(node.disk.hex() for node in found)
            raise ChangeRefusedError(f"controller {ordinal} is there with the disks {disks}: say which one")
        return found[0]

    def leads(self) -> bool:
        """Whether this controller leads, and its state is complete."""
        return self.driver.ready

    def heirs(self) -> list[NodeId]:
        """Who could lead after this leader, the best first: voters that are there, who has most before."""
        return self.driver.heirs()

    def ids(self) -> tuple[NodeId, ...]:
        """Of all members, this one among them; learners, too."""
        return tuple(self.raft.configuration.members)

    def behind(self, level: int) -> list[int]:
        """Controllers, by ordinal, whose process has not said to this leader that it knows a feature level;
        learners, too. The leader knows for itself."""
        raft = self.raft
        others = (node for node in raft.configuration.members if node != raft.own)
        known = {node for node, each in raft.progress.items() if each.max_level >= level}
        return sorted(node.ordinal for node in others if node not in known)

    def describe(self, problem: str) -> pb.ControllersDescription:
        """For people."""
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
