"""How the leader's log comes to the others, and what of it is committed. Pure."""

from tank_controller.raft import membership, reads, snapshots
from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Entry,
    Heartbeat,
    HeartbeatAnswer,
    Message,
    NodeId,
    TimeoutNow,
)
from tank_controller.raft.progress import Flow, Progress, Transfer
from tank_controller.raft.quorum import reached_by_majority
from tank_controller.raft.state import RaftState

# --- The leader ---


def flush(raft: RaftState) -> None:
    """Sends every follower what its window allows. Called once a Ready: what gathered goes together."""
    for node, progress in raft.progress.items():
        while progress.may_send(raft.settings) and _has_news(raft, progress):
            if not _send_append(raft, node, progress):
                break
        if progress.ask_anyway and progress.flow is Flow.REPLICATE:
            _send_append(raft, node, progress, empty=True)
        snapshots.flush(raft, node, progress)


def _has_news(raft: RaftState, progress: Progress) -> bool:
    """A commit alone waits for the answer to what is on its way: the next append takes it along, and under
    load a message of its own, and its answer, would be every second one.
    """
    return (
        progress.flow is Flow.PROBE  # what it has is to be found out
        or progress.next_index <= raft.log.last_index
        or (progress.told_commit < raft.log.commit and not progress.in_flight)
    )


def _send_append(raft: RaftState, node: NodeId, progress: Progress, *, empty: bool = False) -> bool:
    log = raft.log
    prev_index = progress.next_index - 1
    prev_term = log.term(prev_index)
    if prev_term is None:
        if raft.snapshot is None or not progress.active:
            return False  # one that is away gets its snapshot when it is back
        progress.send_snapshot(raft.snapshot)
        return False
    entries: list[Entry] = []
    if not empty and progress.next_index <= log.last_index:
        entries = log.slice(progress.next_index, log.last_index, raft.settings.max_append_bytes)
    raft.send(node, Append(prev_index, prev_term, tuple(entries), log.commit))
    progress.told_commit = log.commit
    progress.ask_anyway = False
    if entries or progress.flow is Flow.PROBE:
        progress.sent(prev_index + len(entries), sum(entry.size for entry in entries))
    return True


def on_append_answer(raft: RaftState, message: Message, answer: AppendAnswer) -> None:
    """Accepted: counts. Rejected: goes back to where the logs may agree."""
    progress = _progress_of(raft, message.sender, answer.start)
    progress.active = True
    if answer.rejected:
        if progress.flow is Flow.SNAPSHOT:
            return  # it is being brought up anyway
        agree = raft.log.last_at_most(answer.hint_index, answer.hint_term)
        progress.rejected(answer.index, agree + 1)
        return
    if answer.index > raft.log.last_index:
        raise MalformedMessageError(f"{message.sender} claims entry {answer.index}, which was never sent")
    progress.accepted(answer.index)
    if progress.flow is Flow.PROBE or (progress.transfer and _brought_up(raft, progress, progress.transfer)):
        progress.replicate()
    advance_commit(raft)
    if message.sender == raft.transfer_target and progress.matched == raft.log.last_index:
        raft.send(message.sender, TimeoutNow())


def _brought_up(raft: RaftState, progress: Progress, transfer: Transfer) -> bool:
    """Whether the log will do, or this snapshot did what it could (there may be a later one by now)."""
    return progress.matched >= min(raft.log.base_index, transfer.snapshot.meta.index)


def on_heartbeat_answer(raft: RaftState, message: Message, answer: HeartbeatAnswer) -> None:
    """It is there: whatever it wasn't sent, or may not have got, is due."""
    progress = _progress_of(raft, message.sender, answer.start)
    progress.active = True
    progress.acked_round = max(progress.acked_round, answer.round)
    progress.max_level = answer.max_level
    progress.paused = False
    if progress.matched < raft.log.last_index:
        progress.ask_anyway = True
    reads.confirm(raft)


def _progress_of(raft: RaftState, node: NodeId, start: int) -> Progress:
    """Of the process that answers: what an earlier one matched is found out anew, its disk may be older."""
    progress = raft.progress[node]
    if start and progress.start and start != progress.start:
        progress = raft.progress[node] = Progress(raft.log.last_index + 1, max_level=progress.max_level)
    progress.start = start or progress.start
    return progress


def own_matched(raft: RaftState) -> int:
    """The leader's own acknowledgement: what its disk has, not what its log has."""
    return raft.log.stable


def advance_commit(raft: RaftState) -> None:
    """Commits what a majority has, if the last of it is of this term.

    An entry of an older term is never committed by counting: a later leader could still replace it (figure 8
    of the Raft paper). The entry of this term behind it takes it along.
    """
    log = raft.log
    index = reached_by_majority(
        [
            own_matched(raft) if voter == raft.own else raft.progress[voter].matched
            for voter in raft.configuration.voters
        ]
    )
    if log.term(index) != raft.term or index <= log.commit:
        return
    raft.uncommitted_bytes -= sum(
        entry.size for entry in log.entries[log.commit - log.base_index : index - log.base_index]
    )
    log.commit_to(index)
    reads.begin_round(raft)
    membership.after_commit(raft)


# --- The follower ---


def on_append(raft: RaftState, message: Message, append: Append) -> None:
    """Appends what is missing; the answer leaves when it is durable."""
    _check(message.term, append)
    log = raft.log
    if append.prev_index < log.commit:
        raft.send(message.sender, AppendAnswer(log.commit, start=raft.start))  # late, or sent twice
        return
    if not log.accept(append.prev_index, append.prev_term, append.entries):
        hint = log.last_at_most(append.prev_index, append.prev_term)
        answer = AppendAnswer(append.prev_index, True, hint, log.term(hint) or 0, raft.start)
        raft.send(message.sender, answer)
        return
    agreed = append.prev_index + len(append.entries)
    log.commit_to(min(append.commit, agreed))
    raft.send(message.sender, AppendAnswer(agreed, start=raft.start))


def _check(term: int, append: Append) -> None:
    last_term = append.prev_term
    for index, entry in enumerate(append.entries, append.prev_index + 1):
        if entry.index != index or not last_term <= entry.term <= term:
            raise MalformedMessageError(f"entry {entry.index} of term {entry.term} doesn't follow")
        last_term = entry.term
        membership.check_data(entry)


def on_heartbeat(raft: RaftState, message: Message, heartbeat: Heartbeat) -> None:
    """The leader lives. It says as committed only what this node has acknowledged."""
    if heartbeat.start in (0, raft.start):
        raft.log.commit_to(min(heartbeat.commit, raft.log.last_index))
    answer = HeartbeatAnswer(heartbeat.round, raft.settings.max_level, raft.start)
    raft.send(message.sender, answer)
