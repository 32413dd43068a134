"""The refusals of the core, one type for each reason. A refused call changes nothing. Pure."""

from tank_controller.raft.messages import NodeId


class Refused(Exception):
    """The core refuses a call or a message. The text says why and, where it helps, what to do."""


class MessageRefusedError(Refused):
    """A message for another node, of another cluster, or that no correct peer sends."""


class WrongClusterError(MessageRefusedError):
    """The message comes from another cluster: addresses of two clusters were mixed."""


class NotForThisNodeError(MessageRefusedError):
    """The message is for another node, or for the disk that this ordinal had before."""


class DiskChangedError(MessageRefusedError):
    """A known ordinal answers with another disk: it is not the member that the configuration names."""


class UnknownMemberError(MessageRefusedError):
    """An answer from a node that isn't in the configuration."""


class MalformedMessageError(MessageRefusedError):
    """The message contradicts itself, or entries that are committed here."""


class ProposalRefusedError(Refused):
    """A proposal that was not appended. It may be tried again, at another controller or later."""


class NotLeaderError(ProposalRefusedError):
    """Raised by a node that doesn't lead. `leader`: the leader that this node knows, or None."""

    def __init__(self, leader: NodeId | None) -> None:
        super().__init__(f"not the leader: ask {leader}" if leader else "no leader is known: ask again")
        self.leader = leader


class TransferUnderWayError(ProposalRefusedError):
    """The leader is handing leadership over: ask again in a moment."""


class TooLargeError(ProposalRefusedError):
    """The proposal is over the bound of one entry: send it in parts."""


class OverloadedError(ProposalRefusedError):
    """Too many proposals wait to be committed, or too many reads to be confirmed: ask again later."""


class ChangeRefusedError(ProposalRefusedError):
    """A membership change that would be unsafe now, or that makes no sense."""


class UnansweredError(ChangeRefusedError):
    """Too few of the remaining voters have answered since the removal was asked for: ask again in a
    moment.
    """
