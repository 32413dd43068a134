"""Promises that an earlier process of this node made, and that a disk restored from an older copy has lost.
Pure.

Raft counts on a disk that never goes back. So a node that starts asks the other voters for their terms and
the ends of their logs, and gives no vote before. A candidate that got this node's vote in a term has reached
that term: in the greatest term answered, this node votes no more. A leader that counted this node's
acknowledgement of an entry has that entry: this node votes for no log that ends before the greatest end
answered, and asks again until its own log reaches it.

Voters that live answer at once. For a silent one the node waits an election timeout, if the voters heard so
far and itself are a majority: with fewer, no election can succeed anyway.
"""

from tank_controller.raft.messages import EndAnswer, EndRequest, NodeId, RaftMessage
from tank_controller.raft.quorum import majority
from tank_controller.raft.recollected import LogEnd, Recollection
from tank_controller.raft.state import RaftState

SILENT_ELECTIONS = 30
"""So many ticks the last answer of a voter counts that is silent since: it may come back with the entries
that this node lacks. After them, the other voters decide without it.
"""


def end_of(raft: RaftState) -> LogEnd:
    """The last entry of this node's own log."""
    return raft.log.last_term, raft.log.last_index


def may_vote(raft: RaftState, end: LogEnd) -> bool:
    """Whether the node may vote for a log with this end. A node that asks for votes passes the end of its own
    log.
    """
    own = raft.recollection
    return own is None or own.done or (own.floor is not None and end >= own.floor)


def is_over(raft: RaftState) -> bool:
    """Whether nothing is missing any more, so that the node votes as any other."""
    own = raft.recollection
    return own is None or own.done


def begin(raft: RaftState) -> None:
    """Called at a start. A node without other voters, or without a log, has made no promises."""
    raft.recollection = Recollection(raft.random(1 << 62))
    if raft.log.last_index == 0 or not _others(raft):
        raft.recollection.done = True
        return
    _ask(raft, raft.recollection)


def tick(raft: RaftState) -> None:
    """Lets one tick pass."""
    own = raft.recollection
    if own is None or own.done:
        return
    own.ticks += 1
    oldest = own.ticks - SILENT_ELECTIONS * raft.settings.election_ticks
    own.answers = {voter: known for voter, known in own.answers.items() if known[1] > oldest}
    _settle(raft, own)
    if not own.done and own.ticks % raft.settings.heartbeat_ticks == 0:
        _ask(raft, own)


def on_request(raft: RaftState, message: RaftMessage, request: EndRequest) -> None:
    """Answers with the end of this node's log, in whatever term the other node is: the question belongs to no
    election.
    """
    last_term, last_index = end_of(raft)
    raft.send(message.sender, EndAnswer(request.nonce, last_index, last_term))


def on_answer(raft: RaftState, message: RaftMessage, answer: EndAnswer) -> None:
    """Takes another voter's answer. The caller has looked at its term."""
    own = raft.recollection
    if own is None or own.done or answer.nonce != own.nonce or message.sender not in _others(raft):
        return
    own.answers[message.sender] = (answer.last_term, answer.last_index), own.ticks
    _settle(raft, own)


def _others(raft: RaftState) -> list[NodeId]:
    return [voter for voter in raft.configuration.voters if voter != raft.own]


def _ask(raft: RaftState, own: Recollection) -> None:
    for voter in _others(raft):
        raft.send(voter, EndRequest(own.nonce))


def _settle(raft: RaftState, own: Recollection) -> None:
    others = _others(raft)
    if own.floor is None:
        known = sum(voter in own.answers for voter in others)
        waits_for_all = own.ticks < raft.settings.election_ticks
        if known < (len(others) if waits_for_all else majority(len(others) + 1) - 1):
            return
        raft.vote = raft.vote or raft.own  # another candidate may have this node's vote in this term
    ends = [own.answers[voter][0] for voter in others if voter in own.answers]
    own.floor = max(ends, default=(0, 0))
    own.done = end_of(raft) >= own.floor
