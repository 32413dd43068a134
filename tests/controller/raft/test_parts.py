"""The parts of the core, each alone: quorum, log, progress, configuration, and what `step` refuses."""

import random

import pytest

from tank_controller.raft import errors
from tank_controller.raft.core import Raft
from tank_controller.raft.log import RaftLog
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Body,
    Configuration,
    EntryKind,
    HardState,
    Heartbeat,
    LogEntry,
    NodeId,
    RaftMessage,
    ReadAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    SnapshotMeta,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from tank_controller.raft.progress import Flow, MemberProgress
from tank_controller.raft.quorum import Vote, majority, reached_by_majority, tally
from tank_controller.raft.settings import Settings
from tank_controller.raft.snapshots import make
from tank_controller.raft.state import RaftRole

ONE, TWO, THREE, FOUR = (NodeId(n, bytes([n])) for n in (1, 2, 3, 4))
TRIO = Configuration((ONE, TWO, THREE))


def entry(index: int, term: int, data: bytes = b"x") -> LogEntry:
    return LogEntry(index, term, EntryKind.COMMAND, data)


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_two_majorities_always_share_a_voter(voters: int, needed: int) -> None:
    assert majority(voters) == needed
    assert 2 * needed > voters


def test_a_number_is_reached_when_a_majority_has_it() -> None:
    chance = random.Random(1)
    for _ in range(300):
        values = [chance.randint(0, 9) for _ in range(chance.randint(1, 7))]
        reached = reached_by_majority(values)
        assert sum(value >= reached for value in values) >= majority(len(values))
        assert sum(value >= reached + 1 for value in values) < majority(len(values))
    assert reached_by_majority([]) == 0


def test_a_snapshot_says_who_were_members_where_it_ends_and_not_who_are_by_what_comes_behind() -> None:
    four = Configuration((*TRIO.voters, FOUR))
    log = [
        LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode()),
        entry(2, 1),
        LogEntry(3, 1, EntryKind.CONFIGURATION, four.encode()),
        entry(4, 1),
    ]
    raft = Raft(ONE, "c", HardState(1, None, 2), None, log, lambda below: 0)
    raft.log.applied = 2
    assert raft.configuration == four, "a configuration counts from the moment at which it is in the log"
    assert raft.snapshot_point() == (2, 1, TRIO)


def test_a_vote_is_won_lost_or_open() -> None:
    voters = (ONE, TWO, THREE)
    assert tally(voters, {ONE: True}) is Vote.PENDING
    assert tally(voters, {ONE: True, FOUR: True}) is Vote.PENDING, "a stranger doesn't count"
    assert tally(voters, {ONE: True, TWO: False}) is Vote.PENDING
    assert tally(voters, {ONE: True, TWO: True}) is Vote.WON
    assert tally(voters, {ONE: True, TWO: False, THREE: False}) is Vote.LOST
    assert tally((), {ONE: True}) is not Vote.WON


@pytest.mark.parametrize("configuration", [Configuration(), TRIO, Configuration((ONE,), (TWO, FOUR))])
def test_a_configuration_is_read_back_and_never_in_part(configuration: Configuration) -> None:
    data = configuration.encode()
    assert Configuration.decode(data) == configuration
    for length in range(len(data)):
        with pytest.raises(ValueError):
            Configuration.decode(data[:length])
    with pytest.raises(ValueError, match="follow"):
        Configuration.decode(data + b"\0")


def test_the_configuration_follows_the_log_in_both_directions() -> None:
    log = RaftLog(0, 0, Configuration())
    pair = Configuration((ONE, TWO))
    log.append([LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode()), entry(2, 1)])
    log.append([LogEntry(3, 1, EntryKind.CONFIGURATION, pair.encode())])
    assert log.configuration == pair
    assert log.configuration_at(2) == TRIO
    assert log.accept(2, 1, [entry(3, 2)])
    assert (log.configuration, log.configuration_index) == (TRIO, 1)


def test_what_agrees_is_not_touched_and_what_differs_is_cut_from_there() -> None:
    log = RaftLog(0, 0, Configuration())
    log.append([entry(n, 1) for n in range(1, 6)])
    log.stable = log.handed = 5
    log.commit_to(2)
    assert log.accept(1, 1, [entry(2, 1), entry(3, 1)])
    assert (log.last_index, log.stable) == (5, 5), "late, and all there"
    assert log.accept(5, 1, [])
    assert not log.accept(7, 1, [entry(8, 1)])
    assert log.accept(3, 1, [entry(4, 2)])
    assert [e.term for e in log.entries] == [1, 1, 1, 2]
    assert (log.stable, log.handed) == (3, 3)
    with pytest.raises(errors.MalformedMessageError, match="committed"):
        log.accept(1, 1, [entry(2, 2)])


def test_a_write_that_was_overtaken_by_a_cut_makes_nothing_stable() -> None:
    log = RaftLog(0, 0, Configuration())
    log.append([entry(1, 1), entry(2, 1)])
    log.handed = 2
    assert log.accept(1, 1, [entry(2, 2)])
    log.persisted(2, 1)
    assert log.stable == 0
    log.persisted(2, 2)
    assert log.stable == 2


def test_compaction_keeps_terms_and_configuration() -> None:
    log = RaftLog(0, 0, Configuration())
    log.append([LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode()), *(entry(n, n) for n in range(2, 9))])
    log.stable = log.handed = 8
    log.commit_to(8)
    log.applied = 8
    log.compact(5)
    assert (log.base_index, log.base_term, log.term(5), log.term(4)) == (5, 5, 5, None)
    assert [e.index for e in log.slice(6, 8, 1)] == [6], "one, however small the bound"
    assert [e.index for e in log.slice(6, 8, 1000)] == [6, 7, 8]
    assert log.configuration_at(6) == TRIO
    log.compact(3)
    assert log.base_index == 5


def test_a_follower_is_sent_no_more_than_its_window() -> None:
    settings = Settings(in_flight_appends=3, in_flight_bytes=100)
    progress = MemberProgress(5)
    assert progress.may_send(settings)
    progress.sent(5, 10)
    assert not progress.may_send(settings), "one at a time while probing"
    progress.accepted(5)
    progress.replicate()
    for last in (6, 7, 8):
        assert progress.may_send(settings)
        progress.sent(last, 10)
    assert not progress.may_send(settings), "three are unanswered"
    progress.accepted(7)
    progress.sent(9, 95)
    assert not progress.may_send(settings), "too many bytes are"
    assert (progress.matched, progress.next_index) == (7, 10)
    assert not progress.rejected(6, 3), "late: it matched since"
    assert progress.rejected(9, 3)
    assert (progress.flow, progress.next_index) == (Flow.PROBE, 8), "never behind what matched"


# --- What step refuses ---


def follower(term: int = 2) -> Raft:
    log = [LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode()), entry(2, 2), entry(3, 2)]
    return Raft(ONE, "c", HardState(term, None, 3), None, log, lambda below: 0)


def message(
    body: Body, term: int = 2, sender: NodeId = TWO, target: NodeId = ONE, cluster: str = "c"
) -> RaftMessage:
    return RaftMessage(cluster, sender, target, term, body)


EMPTIED = NodeId(2, b"new")
META = SnapshotMeta(9, 2, TRIO, 10, 0)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (message(Heartbeat(0, 0), cluster="d"), errors.WrongClusterError),
        (message(Heartbeat(0, 0), target=NodeId(1, b"old")), errors.NotForThisNodeError),
        (message(VoteAnswer(True), sender=EMPTIED), errors.DiskChangedError),
        (message(AppendAnswer(3), sender=EMPTIED), errors.DiskChangedError),
        (message(AppendAnswer(3), sender=FOUR), errors.UnknownMemberError),
        (message(TimeoutNow()), errors.MalformedMessageError),
        (message(Append(3, 2, (entry(5, 2),), 3)), errors.MalformedMessageError),
        (message(Append(3, 2, (entry(4, 1),), 3)), errors.MalformedMessageError),
        (message(Append(3, 2, (entry(4, 9),), 3)), errors.MalformedMessageError),
        (
            message(Append(3, 2, (LogEntry(4, 2, EntryKind.CONFIGURATION, b"\1"),), 3)),
            errors.MalformedMessageError,
        ),
        (message(SnapshotChunk(META, 8, b"123")), errors.MalformedMessageError),
    ],
)
def test_what_is_refused_has_a_type_and_changes_nothing(
    refused: RaftMessage, error: type[errors.MessageRefusedError]
) -> None:
    raft = follower()
    with pytest.raises(error):
        raft.step(refused)
    assert (raft.term, raft.vote, raft.log.last_index, raft.log.commit) == (2, None, 3, 3)
    assert not raft.ready().late


def leader() -> Raft:
    raft = follower()
    for _ in range(10):
        raft.tick()
    for pre in (True, False):
        raft.advance(raft.ready())
        raft.step(message(VoteAnswer(True, pre), term=3))
    raft.advance(raft.ready())
    assert raft.role is RaftRole.LEADER
    return raft


def test_a_leader_refuses_another_of_its_term_and_claims_beyond_its_log() -> None:
    raft = leader()
    with pytest.raises(errors.MessageRefusedError, match="as this node does"):
        raft.step(message(Heartbeat(0, 0), term=3))
    with pytest.raises(errors.MalformedMessageError, match="never sent"):
        raft.step(message(AppendAnswer(99), term=3))
    assert raft.log.commit == 3


def test_votes_of_an_emptied_disk_and_repeats_elect_nobody() -> None:
    raft = follower()
    for _ in range(10):
        raft.tick()
    for _ in range(3):
        with pytest.raises(errors.DiskChangedError):
            raft.step(message(VoteAnswer(True, True), term=3, sender=EMPTIED))
    assert raft.role is RaftRole.PRE_CANDIDATE


def test_a_node_without_a_log_votes_for_nobody() -> None:
    raft = Raft(ONE, "c", HardState(), None, [], lambda below: 0)
    raft.step(message(VoteRequest(5, 5), term=6))
    ready = raft.ready()
    assert [m.body for m in ready.late] == [VoteAnswer(False)]
    assert ready.hard_state == HardState(6, None, 0)


def test_a_vote_is_given_once_a_term_and_kept_over_a_restart() -> None:
    raft = follower()
    raft.step(message(VoteRequest(3, 2), term=5))
    ready = raft.ready()
    assert ready.hard_state == HardState(5, TWO, 3)
    assert ready.early == [], "nobody hears of a vote that isn't on the disk"
    assert [m.body for m in ready.late] == [VoteAnswer(True)]
    again = Raft(ONE, "c", ready.hard_state, None, raft.log.entries, lambda below: 0)
    again.step(message(VoteRequest(9, 4), term=5, sender=THREE))
    again.step(message(VoteRequest(3, 2), term=5))
    assert [(m.target, m.body) for m in again.ready().late] == [
        (THREE, VoteAnswer(False)),
        (TWO, VoteAnswer(True)),
    ]


def test_settings_keep_a_message_below_grpcs_bound() -> None:
    with pytest.raises(AssertionError):
        Settings(max_append_bytes=4 * 1024 * 1024)
    with pytest.raises(AssertionError):
        Settings(heartbeat_ticks=10)


def test_a_snapshot_whose_bytes_are_wrong_is_asked_for_anew() -> None:
    raft = follower()
    made = make(9, 2, TRIO, b"0123456789")
    raft.step(message(SnapshotChunk(made.meta, 0, b"01234")))
    raft.step(message(SnapshotChunk(made.meta, 5, b"5678?")))
    answers = [m.body for m in raft.ready().early]
    assert answers == [SnapshotAnswer(9, 2, 5), SnapshotAnswer(9, 2, 0)]
    assert raft.log.commit == 3


def test_an_answer_to_the_process_before_fits_no_read_of_this_one() -> None:
    chance = random.Random(3)
    first, second = (
        Raft(ONE, "c", HardState(2, None, 3), None, follower().log.entries, chance.randrange)
        for _ in range(2)
    )
    for raft in (first, second):
        raft.step(message(Heartbeat(3, 0)))
    asked = first.read()
    second.read()
    second.step(message(ReadAnswer(asked, 1)))
    assert second.ready().reads == [], "it would be older than the question"


def test_a_follower_commits_no_further_than_it_agrees_with_the_leader() -> None:
    log = [LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode()), *(entry(n, 2) for n in range(2, 7))]
    raft = Raft(ONE, "c", HardState(2, None, 2), None, log, lambda below: 0)
    raft.step(message(Append(3, 2, (), 5), term=3))
    assert raft.log.commit == 3, "its own entries 4 to 6 may be others than the leader's"


def test_a_learner_that_remembers_a_silent_leader_gives_its_vote_after_a_while() -> None:
    learner = Configuration((TWO, THREE), (ONE,))
    log = [LogEntry(1, 1, EntryKind.CONFIGURATION, learner.encode())]
    raft = Raft(ONE, "c", HardState(2, None, 1), None, log, lambda below: 0)
    raft.step(message(Heartbeat(1, 0)))
    for _ in range(9):
        raft.tick()
    raft.step(message(VoteRequest(1, 1), term=3, sender=THREE))
    assert raft.term == 2, "the leader was heard lately"
    for _ in range(30):
        raft.tick()
    raft.step(message(VoteRequest(1, 1), term=3, sender=THREE))
    assert raft.vote == THREE, "it may have been promoted without knowing it"


def test_what_waits_for_a_disk_that_stalls_is_bounded_and_the_newest_is_kept() -> None:
    log = [LogEntry(1, 1, EntryKind.CONFIGURATION, TRIO.encode())]
    raft = Raft(ONE, "c", HardState(2, None, 1), None, log, lambda below: 0, Settings(outbox_messages=4))
    for index in range(2, 12):
        raft.step(message(Append(index - 1, 1 if index == 2 else 2, (entry(index, 2),), 1)))
    sent = [sent.body for sent in raft.ready().late]
    assert [answer.index for answer in sent if isinstance(answer, AppendAnswer)] == [8, 9, 10, 11]


def test_the_only_voter_campaigns_at_once_and_nobody_else_does() -> None:
    alone, trio = Configuration((ONE,)), TRIO
    for configuration, role in ((alone, RaftRole.LEADER), (trio, RaftRole.FOLLOWER)):
        log = [LogEntry(1, 1, EntryKind.CONFIGURATION, configuration.encode())]
        raft = Raft(ONE, "c", HardState(1, None, 1), None, log, lambda below: 0)
        raft.campaign_alone()
        assert raft.role is role
