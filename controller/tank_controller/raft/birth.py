"""How a cluster is founded, and what a controller with an empty disk may do. Pure.

A controller without a log asks all other controllers for their identities, again and again, under a new nonce
each time.
- All answer the same question that they are empty, too: the controller with the lowest ordinal founds the
  cluster. It stores the founding document before it sends it to the others, and they store it before they
  vote.
- One answers that it belongs to a cluster: the empty controller asks to be added there, as a learner first.
  Empty controllers never found a cluster while another cluster may exist.
- One doesn't answer: the empty controller goes on asking.
A disk that is named in the founding document and is empty has never voted: a disk gets a new UUID when it is
emptied, and stores the cluster's id before its first vote. So any member may send it the document.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tank_controller.raft.messages import Configuration, EntryKind, HardState, LogEntry, NodeId

FIRST_TERM = 1


@dataclass(slots=True, frozen=True)
class Founding:
    """The founding document: the cluster's first log entry, the same at every voter."""

    cluster_id: str
    configuration: Configuration

    @property
    def entry(self) -> LogEntry:
        """The first entry, which is committed from the start."""
        return LogEntry(1, FIRST_TERM, EntryKind.CONFIGURATION, self.configuration.encode())

    @property
    def hard_state(self) -> HardState:
        """The hard state to store together with the entry, before anything else is done."""
        return HardState(FIRST_TERM, None, 1)


@dataclass(slots=True, frozen=True)
class IdentityQuestion:
    """Asks another controller for its identity."""

    asker: NodeId
    nonce: int


@dataclass(slots=True, frozen=True)
class IdentityAnswer:
    """The answer to an IdentityQuestion. `cluster_id` is empty when the answering controller has no log, and
    never had one on this disk.
    """

    answerer: NodeId
    nonce: int
    cluster_id: str = ""


@dataclass(slots=True, frozen=True)
class StoreFounding:
    """To do: store this document, then send it to the other controllers."""

    founding: Founding


@dataclass(slots=True, frozen=True)
class AskToBeAdded:
    """To do: a cluster exists; ask its leader to add this node."""

    cluster_id: str


class BirthRefusedError(Exception):
    """Raised for a founding document that doesn't name this node, or contradicts this node's
    configuration.
    """


@dataclass(slots=True)
class Birth:
    """The state of one empty controller that looks for its cluster."""

    own: NodeId
    ordinals: frozenset[int]
    """All controllers that this one knows of, itself included. The founder must hear from all of them; the
    others may know of fewer.
    """
    random: Callable[[int], int]
    new_cluster_id: Callable[[], str]
    nonce: int = 0
    """The nonce of the present question. Answers to earlier questions say nothing about the present."""
    heard: dict[int, NodeId] = field(default_factory=dict)
    """The controllers that answered this query, and have no log."""

    def __post_init__(self) -> None:
        assert self.own.ordinal in self.ordinals

    def ask(self) -> IdentityQuestion:
        """Begins a new question to all others, and forgets the answers to the question before it."""
        self.nonce = self.random(1 << 62)
        self.heard = {}
        return IdentityQuestion(self.own, self.nonce)

    def answer(self, question: IdentityQuestion) -> IdentityAnswer:
        """Answers another controller's query."""
        return IdentityAnswer(self.own, question.nonce)

    def take(self, answer: IdentityAnswer) -> StoreFounding | AskToBeAdded | None:
        """Takes an answer; returns what to do because of it, None to go on asking."""
        if answer.nonce != self.nonce or answer.answerer.ordinal not in self.ordinals:
            return None
        if answer.cluster_id:
            return AskToBeAdded(answer.cluster_id)
        self.heard[answer.answerer.ordinal] = answer.answerer
        return self.alone()

    def alone(self) -> StoreFounding | None:
        """Returns what a cluster of one controller does, which has no other to ask; None in a larger
        cluster.
        """
        if self.own.ordinal != min(self.ordinals):
            return None
        empty = {**self.heard, self.own.ordinal: self.own}
        if empty.keys() != self.ordinals:
            return None
        return StoreFounding(Founding(self.new_cluster_id(), Configuration(tuple(sorted(empty.values())))))

    def accept(self, founding: Founding) -> Founding:
        """Takes another controller's founding document, to be stored. Raises BirthRefusedError."""
        voters = founding.configuration.voters
        if self.own not in voters:
            raise BirthRefusedError(
                f"cluster {founding.cluster_id} was founded with another disk for {self.own.ordinal}: "
                "ask to be added to it"
            )
        named = sorted(voter.ordinal for voter in voters)
        if not self.ordinals.issubset(named):
            raise BirthRefusedError(
                f"cluster {founding.cluster_id} was founded by controllers {named}, this one is configured "
                f"with {sorted(self.ordinals)}: give all the same list"
            )
        return founding
