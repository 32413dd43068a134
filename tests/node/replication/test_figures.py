"""What a broker's metrics say of replication: who leads, who is in sync, how far each follower is behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import ChangeOutcome
from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tests.support.nodes.broker_cell import TOPIC, BrokerCell, Told
from tests.support.nodes.filled_topics import fill
from tests.support.nodes.leading import append
from tests.support.nodes.shown_figures import shown

MIB = 1024 * 1024


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3, Limits(catch_up_from_bytes=MIB))
    yield cell
    cell.close()


def test_roles_and_in_sync_sizes_are_counted(cell: BrokerCell) -> None:
    cell.create(partitions=3)
    cell.create("alone")
    cell.change(1, in_sync=(1, 2))
    cell.change(2, leader=2)
    cell.change(0, "alone", replicas=(1,), in_sync=(1,))
    cell.run(200)
    seen = shown(cell, 1)
    assert (seen['replicas{role="leader"}'], seen['replicas{role="follower"}']) == (3, 1)
    assert [seen[f'led_partitions{{in_sync="{size}"}}'] for size in (1, 2, 3)] == [1, 1, 1]
    assert (seen["led_partitions_under_replicated"], seen["led_partitions_below_min_insync"]) == (1, 0)
    assert shown(cell, 2)['replicas{role="leader"}'] == 1


def test_one_that_only_just_comes_is_not_missed(cell: BrokerCell) -> None:
    cell.judge = lambda node: None
    cell.create()
    cell.change(in_sync=(1, 2), adding=(3,))
    assert shown(cell, 1)["led_partitions_under_replicated"] == 0
    cell.change(in_sync=(1,))
    assert shown(cell, 1)["led_partitions_under_replicated"] == 1


def test_too_few_in_sync_are_shown_and_what_waits_for_them(cell: BrokerCell) -> None:
    cell.create(min_insync=2, flush="replicated")
    cell.run(200)
    told = Told()
    for follower in (2, 3):
        cell.disconnect(1, follower)
    append(cell.nodes[1], b"x", told, 0)
    assert shown(cell, 1)["uncommitted_numbers"] == 1
    cell.run(4000)
    seen = shown(cell, 1)
    assert (seen["led_partitions_below_min_insync"], seen["led_partitions_under_replicated"]) == (1, 1)
    assert seen["uncommitted_numbers"] == 1
    assert seen['in_sync_changes_total{change="left"}'] == 2
    for follower in (2, 3):
        cell.connect(1, follower)
    cell.run(4000)
    seen = shown(cell, 1)
    assert (seen["led_partitions_below_min_insync"], seen["uncommitted_numbers"]) == (0, 0)
    assert seen['in_sync_changes_total{change="joined"}'] == 2


def test_a_follower_that_is_cut_off_lags_from_its_first_missing_message_on(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(1000)
    seen = shown(cell, 1)
    for follower in "23":
        assert seen[f'follower_connected{{follower="{follower}"}}'] == 1
        assert seen[f'follower_lag_seconds{{follower="{follower}"}}'] == 0
        assert seen[f'follower_out_of_sync_partitions{{follower="{follower}"}}'] == 0
    cell.disconnect(1, 3)
    cell.run(1000)
    assert shown(cell, 1)['follower_lag_seconds{follower="3"}'] == 0, "it lacks nothing"
    append(cell.nodes[1], b"y", Told(), 0)
    cell.run(2000)
    seen = shown(cell, 1)
    assert seen['follower_connected{follower="3"}'] == 0
    assert seen['follower_lag_seconds{follower="3"}'] == 2
    assert seen['follower_lag_seconds{follower="2"}'] == 0
    cell.run(2000)
    seen = shown(cell, 1)
    assert seen['follower_out_of_sync_partitions{follower="3"}'] == 1
    assert seen['follower_lag_seconds{follower="3"}'] == 4, "out of sync it lags on"


def test_what_a_follower_has_to_catch_up_is_shown_and_what_it_got(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.change(in_sync=(1, 2))
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    cell.run(200)
    fill(cell, 4)
    live_bytes = shown(cell, 1)['pushed_bytes_total{push="live"}']
    assert 4 * MIB < live_bytes < 5 * MIB, "to broker 2"
    cell.connect(1, 3)
    behind = []
    for _ in range(80):
        cell.run(50)
        behind.append(shown(cell, 1)['follower_behind_bytes{follower="3"}'])
    assert MIB < max(behind) <= 4 * MIB
    assert behind[-1] == 0
    seen = shown(cell, 1)
    assert 3 * MIB < seen['pushed_bytes_total{push="catch_up"}'] < 5 * MIB
    cell.judge = cell.accept
    cell.run(1000)
    assert (
        shown(cell, 1)['pushed_bytes_total{push="catch_up"}'] == seen['pushed_bytes_total{push="catch_up"}']
    )


def test_leaders_that_change_are_counted_where_they_begin_and_where_they_end(cell: BrokerCell) -> None:
    cell.create(partitions=2)
    cell.change(0, leader=2)
    cell.change(0, leader=1)
    cell.change(1, leader_epoch=2)  # the same leader, anew
    seen = shown(cell, 1)
    assert (seen['leader_changes_total{change="began"}'], seen['leader_changes_total{change="ended"}']) == (
        3,
        1,
    )
    seen = shown(cell, 2)
    assert (seen['leader_changes_total{change="began"}'], seen['leader_changes_total{change="ended"}']) == (
        1,
        1,
    )


def test_pushes_that_were_not_taken_are_counted_by_follower_and_reason(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(200)
    cell.disconnect(1, 3)
    cell.change(leader=3, brokers=(2, 3))  # 1 doesn't hear that it was deposed
    cell.run(200)
    append(cell.nodes[1], b"y", Told(), 0)
    cell.run(200)
    seen = shown(cell, 1)
    assert seen['push_refusals_total{error="stale_leader",follower="2"}'] == 1
    assert seen['follower_behind_bytes{follower="2"}'] == 0, "nobody knows what it has of this"


def test_in_sync_sets_that_the_controllers_refuse_are_counted(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    cell.judge = lambda node: None
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(3500)
    ((_, done),) = cell.nodes[1].controller.proposed[-1:]
    done(ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.STALE_EPOCH]))
    assert shown(cell, 1)['in_sync_refusals_total{error="stale_epoch"}'] == 1


def test_a_replica_that_is_copied_anew_is_shown_until_it_has_all(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    cell.nodes[2].log(TOPIC).health.refilling = True
    assert shown(cell, 2)["replicas_refilling"] == 1
    assert shown(cell, 1)["replicas_refilling"] == 0


def test_a_broker_shows_its_line_to_the_controllers(cell: BrokerCell) -> None:
    own = cell.nodes[1].controller
    own.view.index = 77
    seen = shown(cell, 1)
    assert (seen["controllers_connected"], seen["fenced"], seen["view_index"]) == (1, 0, 77)
    own.connected, own.silence_ms = False, 4500
    own.view.brokers[1].fenced = True
    seen = shown(cell, 1)
    assert (seen["controllers_connected"], seen["controllers_silence_seconds"]) == (0, 4.5)
    assert seen["fenced"] == 1


@pytest.mark.parametrize("flush", ["replicated", "disk"])
def test_an_append_that_followers_confirm_counts_once_in_the_time_of_produces(
    cell: BrokerCell, flush: str
) -> None:
    cell.create(flush=flush)
    cell.run(200)
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(200)
    cell.nodes[1].metrics.end_tick(0.001)
    assert told.told
    assert shown(cell, 1)["produce_latency_seconds_count"] == 1
