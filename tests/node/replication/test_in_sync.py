"""Who is in sync, and how far all of them have come: each sentence of the design, without brokers."""

import pytest

from tank_node.replication.in_sync import InSync

LAG_MS = 3000


def leader(
    *followers: int, end: int = 10, mark: int = 0, flush_disk: bool = False, min_in_sync: int = 1
) -> InSync:
    """Broker 1 leads; its followers are connected, with broker epoch 10 times their id, and in sync."""
    in_sync = InSync(1, end, mark, flush_disk)
    in_sync.view(1, (1, *followers), (1, *followers), min_in_sync)
    in_sync.synced = end
    in_sync.appended(0, end, LAG_MS)
    for follower in followers:
        in_sync.connected(follower, 10 * follower)
    return in_sync


def propose(in_sync: InSync, now_ms: int = 0, unwelcome: int = 0) -> tuple[tuple[int, int], ...] | None:
    return in_sync.propose(
        now_ms, LAG_MS, 99, lambda broker: 1000 + broker, lambda broker: broker != unwelcome
    )


def test_the_mark_is_what_every_one_in_sync_has_matched() -> None:
    in_sync = leader(2, 3)
    in_sync.matched(2, 9, 9)
    assert in_sync.advance() == 0
    in_sync.matched(3, 4, 4)
    assert in_sync.advance() == 4
    in_sync.matched(3, 10, 0)
    assert in_sync.advance() == 9


def test_with_flush_disk_it_is_what_they_have_synced_the_leader_too() -> None:
    in_sync = leader(2, flush_disk=True)
    in_sync.synced = 5
    in_sync.matched(2, 10, 4)
    assert in_sync.advance() == 4
    in_sync.matched(2, 10, 10)
    assert in_sync.advance() == 5
    in_sync.synced = 7
    assert in_sync.advance() == 7


def test_synced_is_never_more_than_matched() -> None:
    in_sync = leader(2, flush_disk=True)
    in_sync.matched(2, 5, 9)
    assert in_sync.advance() == 5


def test_a_mark_never_goes_back() -> None:
    in_sync = leader(2)
    in_sync.matched(2, 8, 8)
    in_sync.advance()
    in_sync.disconnected(2)
    assert in_sync.advance() == 8
    in_sync.connected(2, 20)
    in_sync.matched(2, 3, 3)
    assert in_sync.advance() == 8


def test_what_a_closed_connection_carried_counts_no_more() -> None:
    in_sync = leader(2)
    in_sync.matched(2, 5, 5)
    in_sync.disconnected(2)
    in_sync.matched(2, 10, 10)
    assert in_sync.advance() == 0
    in_sync.connected(2, 20)
    assert in_sync.advance() == 0


def test_an_error_takes_back_what_was_matched() -> None:
    in_sync = leader(2)
    in_sync.matched(2, 10, 10)
    in_sync.unmatched(2)
    assert in_sync.advance() == 0


def test_the_mark_stands_while_too_few_are_in_sync() -> None:
    in_sync = leader(2, min_in_sync=3)
    in_sync.matched(2, 10, 10)
    assert in_sync.advance() == 0
    in_sync.view(2, (1, 2), (1, 2), 2)
    assert in_sync.advance() == 10


def test_while_a_proposal_is_under_way_the_smaller_set_counts_and_both_are_waited_for() -> None:
    in_sync = leader(2, 3, min_in_sync=3)
    in_sync.matched(2, 10, 10)
    assert propose(in_sync, 4000) == ((1, 99), (2, 20))
    assert in_sync.size == 2
    in_sync.matched(3, 10, 10)
    assert in_sync.advance() == 0, "there may be two, which is too few"
    in_sync.view(1, (1, 2, 3), (1, 2, 3), 2)
    assert in_sync.advance() == 10
    in_sync.appended(4000, 11, LAG_MS)
    in_sync.matched(2, 11, 11)
    assert in_sync.advance() == 10, "3 may be a member still"
    in_sync.view(2, (1, 2), (1, 2, 3), 2)
    assert in_sync.advance() == 11


def test_one_that_is_proposed_counts_at_once() -> None:
    in_sync = leader(2, 3)
    in_sync.view(2, (1, 2), (1, 2, 3), 1)
    in_sync.matched(2, 10, 10)
    in_sync.matched(3, 10, 10)
    assert in_sync.advance() == 10
    assert propose(in_sync) == ((1, 99), (2, 20), (3, 30))
    in_sync.appended(0, 11, LAG_MS)
    in_sync.matched(2, 11, 11)
    assert in_sync.advance() == 10
    in_sync.matched(3, 11, 11)
    assert in_sync.advance() == 11


def test_one_proposal_at_a_time() -> None:
    in_sync = leader(2, 3)
    in_sync.matched(2, 10, 10)
    assert propose(in_sync, 4000)
    assert propose(in_sync, 9000) is None
    in_sync.refused(0)
    assert propose(in_sync, 9000) is None, "the refusal of an earlier one"
    in_sync.refused(1)
    assert propose(in_sync, 9000) == ((1, 99), (2, 20))


def test_an_older_view_is_no_outcome() -> None:
    in_sync = leader(2, 3)
    in_sync.matched(2, 10, 10)
    proposed = propose(in_sync, 4000)
    in_sync.view(1, (1, 2), (1, 2, 3), 1)
    assert (in_sync.proposed, in_sync.members) == (proposed, (1, 2, 3))


@pytest.mark.parametrize("flush_disk", [False, True])
def test_one_returns_when_it_has_the_mark_and_what_the_leader_began_with(flush_disk: bool) -> None:
    in_sync = leader(2, 3, end=10, mark=4, flush_disk=flush_disk)
    in_sync.view(2, (1, 2), (1, 2, 3), 1)
    in_sync.matched(2, 10, 10)
    in_sync.matched(3, 9, 9)
    assert propose(in_sync) is None, "the mark is not enough: an earlier leader may have committed more"
    in_sync.matched(3, 10, 9)
    assert (propose(in_sync) is None) == flush_disk
    in_sync.matched(3, 10, 10)
    in_sync.proposed = None
    in_sync.advance()
    in_sync.appended(0, 20, LAG_MS)
    in_sync.synced = 20
    in_sync.matched(2, 15, 15)
    assert in_sync.advance() == 15
    assert propose(in_sync) is None
    in_sync.matched(3, 15, 15)
    assert propose(in_sync) == ((1, 99), (2, 20), (3, 30))


def test_one_that_only_says_where_its_log_ends_does_not_return() -> None:
    in_sync = leader(2, 3, end=0)
    in_sync.view(2, (1, 2), (1, 2, 3), 1)
    assert propose(in_sync) is None, "it has taken nothing on this connection"
    in_sync.matched(3, 0, 0)
    assert propose(in_sync) == ((1, 99), (2, 20), (3, 30))


def test_who_is_fenced_or_draining_is_not_proposed() -> None:
    in_sync = leader(2, 3)
    in_sync.view(2, (1, 2), (1, 2, 3), 1)
    in_sync.matched(2, 10, 10)
    in_sync.matched(3, 10, 10)
    assert propose(in_sync, unwelcome=3) is None


def test_who_left_for_lag_does_not_return_before_it_lags_less() -> None:
    in_sync = leader(2, 3, end=0, flush_disk=True, min_in_sync=2)
    in_sync.view(2, (1, 2), (1, 2, 3), 2)
    in_sync.appended(1000, 1, LAG_MS)
    in_sync.synced = 1
    in_sync.matched(2, 1, 0)
    assert propose(in_sync, 4001) == ((1, 99),)
    in_sync.view(3, (1,), (1, 2, 3), 2)
    assert in_sync.advance() == 0, "the mark is held: it has reached that, and the start"
    assert propose(in_sync, 4201) is None
    in_sync.matched(2, 1, 1)
    assert propose(in_sync, 4401) == ((1, 99), (2, 20))


def test_lag_is_the_age_of_the_oldest_stretch_that_is_not_matched() -> None:
    in_sync = leader(2, end=0)
    in_sync.matched(2, 0, 0)
    in_sync.appended(1000, 1, LAG_MS)
    in_sync.appended(3000, 2, LAG_MS)
    replica = in_sync.replicas[2]
    assert in_sync.lag_ms(replica, 3500) == 2500
    in_sync.matched(2, 1, 1)
    assert in_sync.lag_ms(replica, 3500) == 500
    in_sync.matched(2, 2, 2)
    assert in_sync.lag_ms(replica, 99_000) == 0


def test_a_slow_follower_leaves_after_its_time_and_not_before() -> None:
    in_sync = leader(2, end=0)
    in_sync.appended(1000, 1, LAG_MS)
    assert propose(in_sync, 4000) is None
    assert propose(in_sync, 4001) == ((1, 99),)


def test_with_flush_disk_one_whose_disk_hangs_leaves_too() -> None:
    in_sync = leader(2, end=0, flush_disk=True)
    in_sync.appended(1000, 1, LAG_MS)
    in_sync.matched(2, 1, 0)
    assert propose(in_sync, 4001) == ((1, 99),)


def test_appends_without_end_are_remembered_in_bounded_space_and_lag_is_still_seen() -> None:
    in_sync = leader(2, 3, end=0)
    for now_ms in range(10_000):
        in_sync.appended(now_ms, now_ms + 1, LAG_MS)
        if now_ms % 100 == 0:
            in_sync.matched(2, now_ms + 1, now_ms + 1)
    assert len(in_sync.appends) < 100
    assert in_sync.lag_ms(in_sync.replicas[3], 10_000) > LAG_MS
    assert in_sync.lag_ms(in_sync.replicas[2], 10_000) < 400


def test_a_member_without_a_connection_in_this_epoch_keeps_its_epoch_of_the_view() -> None:
    in_sync = leader(2, 3, end=0)
    in_sync.view(2, (1, 3), (1, 2, 3), 1)
    in_sync.replicas[3].broker_epoch = 0
    in_sync.matched(2, 0, 0)
    assert propose(in_sync) == ((1, 99), (2, 20), (3, 1003))


def test_who_is_no_replica_any_more_leaves_and_holds_nothing() -> None:
    in_sync = leader(2, 3)
    in_sync.matched(2, 10, 10)
    in_sync.view(2, (1, 2), (1, 2), 1)
    assert in_sync.advance() == 10
    assert 3 not in in_sync.replicas


def test_a_deposed_leader_proposes_nothing() -> None:
    in_sync = leader(2)
    in_sync.view(2, (2,), (1, 2), 1)
    assert propose(in_sync, 9000) is None
