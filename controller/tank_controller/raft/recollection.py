"""What a node may have promised before it started, and forgotten: its disk may be an older copy. Pure.

Raft counts on a disk that never goes back. So a node that starts asks the other voters for their terms and
the ends of their logs, and gives no vote before. Whoever got its vote in a term has reached that term: in the
greatest of their terms it votes no more. Whoever counted its acknowledgement of an entry has that entry: it
votes for no log that ends before the last of theirs, and asks again until its own has come so far.

All others answer at once where they live. For one that is silent the node waits as long as for an election,
if it has heard so many that they and itself are a majority: with fewer nobody can be elected anyway.
"""

from tank_controller.raft.messages import EndAnswer, EndRequest, Message, NodeId
from tank_controller.raft.quorum import majority
from tank_controller.raft.recollected import LogEnd, Recollection
from tank_controller.raft.state import RaftState

OLDER_AFTER_ELECTIONS = 3
"""A voter that is heard, and doesn't answer for so many election timeouts, is of an older version."""
SILENT_ELECTIONS = 30
"""So long the last word of a voter counts that is silent since: it may come back with the entries that this
node lacks. Where it never does, the others decide then without them."""


def end_of(raft: RaftState) -> LogEnd:
    """Of this node's own log."""
    return raft.log.last_term, raft.log.last_index


def may_vote(raft: RaftState, end: LogEnd) -> bool:
    """For a log that ends there; its own is meant where it asks for votes itself."""
    own = raft.recollection
    return own is None or own.done or (own.floor is not None and end >= own.floor)


def is_over(raft: RaftState) -> bool:
    """Whether it votes as any other."""
    own = raft.recollection
    return own is None or own.done


def begin(raft: RaftState) -> None:
    """At a start. Who has no other voters, or no log, has promised nothing to anybody."""
    raft.recollection = Recollection(raft.random(1 << 62))
    if raft.log.last_index == 0 or not _others(raft):
        raft.recollection.done = True
        return
    _ask(raft, raft.recollection)


def tick(raft: RaftState) -> None:
    """Time passes."""
    own = raft.recollection
    if own is None or own.done:
        return
    own.ticks += 1
    oldest = own.ticks - SILENT_ELECTIONS * raft.settings.election_ticks
    own.answers = {voter: known for voter, known in own.answers.items() if known[1] > oldest}
    _settle(raft, own)
    if not own.done and own.ticks % raft.settings.heartbeat_ticks == 0:
        _ask(raft, own)


def on_request(raft: RaftState, message: Message, request: EndRequest) -> None:
    """Whatever the asker's term is: it says nothing of an election."""
    last_term, last_index = end_of(raft)
    raft.send(message.sender, EndAnswer(request.nonce, last_index, last_term))


def on_answer(raft: RaftState, message: Message, answer: EndAnswer) -> None:
    """Its term was looked at before."""
    own = raft.recollection
    if own is None or own.done or answer.nonce != own.nonce or message.sender not in _others(raft):
        return
    own.answers[message.sender] = (answer.last_term, answer.last_index), own.ticks
    _settle(raft, own)


def on_message(raft: RaftState, sender: NodeId) -> None:
    """Something came from there."""
    own = raft.recollection
    if own is not None and not own.done and sender in raft.configuration.voters:
        own.heard.add(sender)


def _others(raft: RaftState) -> list[NodeId]:
    return [voter for voter in raft.configuration.voters if voter != raft.own]


def _ask(raft: RaftState, own: Recollection) -> None:
    for voter in _others(raft):
        raft.send(voter, EndRequest(own.nonce))


def _settle(raft: RaftState, own: Recollection) -> None:
    others = _others(raft)
    if own.floor is None:
        is_late = own.ticks >= OLDER_AFTER_ELECTIONS * raft.settings.election_ticks
        known = sum(voter in own.answers or (is_late and voter in own.heard) for voter in others)
        waits_for_all = own.ticks < raft.settings.election_ticks
        if known < (len(others) if waits_for_all else majority(len(others) + 1) - 1):
            return
        raft.vote = raft.vote or raft.own  # another may have it in this term
    ends = [own.answers[voter][0] for voter in others if voter in own.answers]
    own.floor = max(ends, default=(0, 0))
    own.done = end_of(raft) >= own.floor
