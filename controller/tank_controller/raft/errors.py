"""What the core refuses, each with a type of its own. None of them changes anything. Pure."""

from tank_controller.raft.messages import NodeId


class Refused(Exception):
    """Something that the core doesn't do; the message says why and, where it helps, what to do."""


class MessageRefusedError(Refused):
    """A message that is not for this node, not of this cluster, or that no correct peer sends."""


class WrongClusterError(MessageRefusedError):
    """It comes from another cluster: two clusters' addresses were mixed."""


class NotForThisNodeError(MessageRefusedError):
    """It is meant for another node, or for the disk that this ordinal had before."""


class DiskChangedError(MessageRefusedError):
    """A known ordinal answers with another disk: it is no longer the member that the configuration names."""


class UnknownMemberError(MessageRefusedError):
    """An answer from a node that isn't in the configuration."""


class MalformedMessageError(MessageRefusedError):
    """Its parts contradict each other, or what this node knows to be committed."""


class ProposalRefusedError(Refused):
    """A proposal that was not appended: it may be tried again, elsewhere or later."""


class NotLeaderError(ProposalRefusedError):
    """Only the leader takes proposals. `leader` is who that is, as far as this node knows."""

    def __init__(self, leader: NodeId | None) -> None:
        super().__init__(f"not the leader: ask {leader}" if leader else "no leader is known: ask again")
        self.leader = leader


class TransferUnderWayError(ProposalRefusedError):
    """The leader is handing leadership over: ask again in a moment."""


class TooLargeError(ProposalRefusedError):
    """The proposal is over the bound of one entry: send it in parts."""


class OverloadedError(ProposalRefusedError):
    """Too much waits to be committed, or too many reads to be confirmed: ask again later."""


class ChangeRefusedError(ProposalRefusedError):
    """A membership change that would not be safe now, or makes no sense."""


class UnansweredError(ChangeRefusedError):
    """Too few of the voters that stay have answered since a removal was asked for: ask again in a moment."""
