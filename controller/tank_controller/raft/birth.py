"""How a cluster begins, and what an empty controller may do. Pure.

A controller without a log asks all the others who they are, again and again, under a new nonce each time.
- All say, to the same question, that they are empty, too: the lowest ordinal founds the cluster.
  It keeps what it founded before it hands it to the others, and they keep it before they vote.
- Anybody belongs to a cluster: the empty one asks there to be added, as a learner first. That some are
  empty is never a reason for a new cluster while another one may exist.
- One is silent: wait.
A disk that is named in the founding document and empty has never voted: a disk gets its UUID anew when it is
emptied, and keeps the cluster's id from before its first vote on. So any member may hand it the document.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tank_controller.raft.messages import Configuration, Entry, EntryKind, HardState, NodeId

FIRST_TERM = 1


@dataclass(slots=True, frozen=True)
class Founding:
    """What a cluster begins with, the same at every voter: its first log entry."""

    cluster_id: str
    configuration: Configuration

    @property
    def entry(self) -> Entry:
        """Committed from the start: nobody had a say before."""
        return Entry(1, FIRST_TERM, EntryKind.CONFIGURATION, self.configuration.encode())

    @property
    def hard_state(self) -> HardState:
        """To be kept with the entry, before anything else is done."""
        return HardState(FIRST_TERM, None, 1)


@dataclass(slots=True, frozen=True)
class Question:
    """Who are you?"""

    asker: NodeId
    nonce: int


@dataclass(slots=True, frozen=True)
class Answer:
    """`cluster_id` empty: the answerer has no log and never had one on this disk."""

    answerer: NodeId
    nonce: int
    cluster_id: str = ""


@dataclass(slots=True, frozen=True)
class Found:
    """Keep this, then hand it to the others."""

    founding: Founding


@dataclass(slots=True, frozen=True)
class AskToBeAdded:
    """There is a cluster: ask its leader to add this node."""

    cluster_id: str


class BirthRefusedError(Exception):
    """A founding document that is not for this node, or contradicts what it was configured with."""


@dataclass(slots=True)
class Birth:
    """Of one empty controller."""

    own: NodeId
    ordinals: frozenset[int]
    """All controllers that it knows of, this one among them. Who founds a cluster hears all of them; the
    others may know of fewer than were heard."""
    random: Callable[[int], int]
    new_cluster_id: Callable[[], str]
    nonce: int = 0
    """Of the question that is asked now. Answers to earlier ones say nothing of the present."""
    heard: dict[int, NodeId] = field(default_factory=dict)
    """Who said, to this question, that it is empty."""

    def __post_init__(self) -> None:
        assert self.own.ordinal in self.ordinals

    def ask(self) -> Question:
        """A new question, to all the others; what was heard before is forgotten."""
        self.nonce = self.random(1 << 62)
        self.heard = {}
        return Question(self.own, self.nonce)

    def answer(self, question: Question) -> Answer:
        """To somebody else's question."""
        return Answer(self.own, question.nonce)

    def take(self, answer: Answer) -> Found | AskToBeAdded | None:
        """What follows from an answer; None: go on asking."""
        if answer.nonce != self.nonce or answer.answerer.ordinal not in self.ordinals:
            return None
        if answer.cluster_id:
            return AskToBeAdded(answer.cluster_id)
        self.heard[answer.answerer.ordinal] = answer.answerer
        return self.alone()

    def alone(self) -> Found | None:
        """What follows now; for a cluster of one nobody has to be asked."""
        if self.own.ordinal != min(self.ordinals):
            return None
        empty = {**self.heard, self.own.ordinal: self.own}
        if empty.keys() != self.ordinals:
            return None
        return Found(Founding(self.new_cluster_id(), Configuration(tuple(sorted(empty.values())))))

    def accept(self, founding: Founding) -> Founding:
        """Another one's document, to be kept. BirthRefusedError."""
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


def member_answer(own: NodeId, cluster_id: str, question: Question) -> Answer:
    """What a controller that has a log says to an empty one's question."""
    return Answer(own, question.nonce, cluster_id)
