"""How the leader sends its log to the other nodes, and which entries are committed. Pure."""

from tank_controller.raft import membership, reads, snapshots
from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    LogEntry,
    NodeId,
    RaftMessage,
    TimeoutNow,
)
from tank_controller.raft.progress import Flow, MemberProgress, Transfer
from tank_controller.raft.quorum import reached_by_majority
from tank_controller.raft.state import RaftState

# --- The leader ---


def flush(raft: RaftState) -> None:
    """Sends every follower what its window allows. Called once for each RaftReady, so that what gathered is
    sent together.
    """
    for node, progress in raft.progress.items():
        while progress.may_send(raft.settings) and _has_news(raft, progress):
            if not _send_append(raft, node, progress):
                break
        if progress.ask_anyway and progress.flow is Flow.REPLICATE:
            _send_append(raft, node, progress, empty=True)
        snapshots.flush(raft, node, progress)


def _has_news(raft: RaftState, progress: MemberProgress) -> bool:
    """Whether an append to this follower is due. A new commit index alone waits for the answer to an append
    in flight, and travels with the next append: under load, a message of its own would double the messages.
    """
    return (
        progress.flow is Flow.PROBE  # the leader has to find out where the logs agree
        or progress.next_index <= raft.log.last_index
        or (progress.told_commit < raft.log.commit and not progress.in_flight)
    )


def _send_append(raft: RaftState, node: NodeId, progress: MemberProgress, *, empty: bool = False) -> bool:
    log = raft.log
    prev_index = progress.next_index - 1
    prev_term = log.term(prev_index)
    if prev_term is None:
        if raft.snapshot is None or not progress.active:
            return False  # a follower that is away gets the snapshot when it is back
        progress.send_snapshot(raft.snapshot)
        return False
    entries: list[LogEntry] = []
    if not empty and progress.next_index <= log.last_index:
        entries = log.slice(progress.next_index, log.last_index, raft.settings.max_append_bytes)
    raft.send(node, Append(prev_index, prev_term, tuple(entries), log.commit))
    progress.told_commit = log.commit
    progress.ask_anyway = False
    if entries or progress.flow is Flow.PROBE:
        progress.sent(prev_index + len(entries), sum(entry.size for entry in entries))
    return True


def on_append_answer(raft: RaftState, message: RaftMessage, answer: AppendAnswer) -> None:
    """Handles a follower's answer. Accepted: the acknowledgement counts. Rejected: the next append begins
    where the logs may agree.
    """
    progress = _progress_of(raft, message.sender, answer.start)
    progress.active = True
    if answer.rejected:
        if progress.flow is Flow.SNAPSHOT:
            return  # a snapshot is on its way to it
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


def _brought_up(raft: RaftState, progress: MemberProgress, transfer: Transfer) -> bool:
    """Whether the follower needs the snapshot no longer: the log suffices, or the snapshot has arrived (a
    later one may exist by now).
    """
    return progress.matched >= min(raft.log.base_index, transfer.snapshot.meta.index)


def on_heartbeat_answer(raft: RaftState, message: RaftMessage, answer: HeartbeatAnswer) -> None:
    """Handles a heartbeat's answer: the follower is there, so appends that it was not sent, or may not have
    got, are due.
    """
    progress = _progress_of(raft, message.sender, answer.start)
    progress.active = True
    progress.acked_round = max(progress.acked_round, answer.round)
    progress.max_level = answer.max_level
    progress.paused = False
    if progress.matched < raft.log.last_index:
        progress.ask_anyway = True
    reads.confirm(raft)


def _progress_of(raft: RaftState, node: NodeId, start: int) -> MemberProgress:
    """Returns the progress record for the process that answers. For a new process of a follower the record
    begins again, because its disk may be older.
    """
    progress = raft.progress[node]
    if start and progress.start and start != progress.start:
        progress = raft.progress[node] = MemberProgress(raft.log.last_index + 1, max_level=progress.max_level)
    progress.start = start or progress.start
    return progress


def own_matched(raft: RaftState) -> int:
    """The leader's own acknowledgement: the last index on its disk, not in its log."""
    return raft.log.stable


def advance_commit(raft: RaftState) -> None:
    """Commits the entries that a majority has, if the last of them is of this term.

    An entry of an older term is never committed by counting: a later leader could still replace it (figure 8
    of the Raft paper). It is committed with an entry of this term behind it.
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


def on_append(raft: RaftState, message: RaftMessage, append: Append) -> None:
    """Appends the missing entries; the answer leaves when they are durable."""
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


def on_heartbeat(raft: RaftState, message: RaftMessage, heartbeat: Heartbeat) -> None:
    """Notes that the leader lives, and takes its commit index, which is never above what this node has
    acknowledged.
    """
    if heartbeat.start in (0, raft.start):
        raft.log.commit_to(min(heartbeat.commit, raft.log.last_index))
    answer = HeartbeatAnswer(heartbeat.round, raft.settings.max_level, raft.start)
    raft.send(message.sender, answer)
