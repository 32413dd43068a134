"""The follower's end of a peer connection: who is let in, what is answered, and what ends."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView
from tank_node.log.log import LogState
from tank_node.log.producers import Outcome, ProducedBatch, Producers, ProducerVerdict
from tank_node.purpose import Purpose
from tank_protos.error_codes import ErrorCode, PushError
from tank_protos.generated.tank import (
    PushAnswer,
    PushedPartition,
    ReplicaIdRequest,
)
from tank_protos.storage.stretch import Stretch
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.support.clients.produce import batch_of
from tests.support.controllers.shown_topics import show
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told
from tests.support.nodes.leader_line import (
    KEY,
    LEADER,
    LEADER_EPOCH,
    OTHER,
    OWN,
    Line,
    all_of,
    following,
    leader_log,
    opened,
    opening,
    place,
    push_of,
    the_answer,
)
from tests.support.nodes.replicas import assert_copies, records_of
from tests.support.storage.logs import Folder, append


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with following(tmp_path / "data") as node:
        yield node


# --- who is let in ---------------------------------------------------------------------------------


def test_a_leaders_broker_is_answered_with_who_this_one_is(node: BenchNode) -> None:
    line = Line(node)
    assert line.send(opening()) == [ReplicaIdRequest(OWN, "test-cluster", 30, LEADER, Purpose.LIVE, KEY)]


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster_id": "another"},
        {"key": bytes(16)},
        {"meant_broker": OTHER},
        {"broker_epoch": LEADER_EPOCH - 1},
        {"broker_epoch": LEADER_EPOCH + 1},
        {"replica_id": 77},
        {"purpose": 3},
    ],
    ids=str,
)
def test_who_is_not_the_one_of_the_view_is_cut_off(node: BenchNode, changes: dict[str, object]) -> None:
    with pytest.raises(WireError) as raised:
        Line(node).send(opening(**changes))
    assert raised.value.reason == "wrong_peer"


@pytest.mark.parametrize("unready", ["broker_epoch", "peer_key"])
def test_before_its_registration_a_node_lets_nobody_in(node: BenchNode, unready: str) -> None:
    setattr(node.controller, unready, 0 if unready == "broker_epoch" else b"")
    with pytest.raises(WireError) as raised:
        Line(node).send(opening())
    assert raised.value.reason == "wrong_peer"


def test_an_old_brokers_bare_id_is_refused_with_a_reason_of_its_own(node: BenchNode) -> None:
    with pytest.raises(WireError) as raised:
        Line(node).feed(b"\x04\x02\0\0\0\x02\0")
    assert raised.value.reason == "old_peer"


def test_a_push_is_refused_on_a_clients_connection(node: BenchNode) -> None:
    with pytest.raises(WireError) as raised:
        Line(node).send(push_of(1))
    assert raised.value.reason == "not_a_peer"


def test_a_leaders_connection_takes_pushes_and_pings_alone(node: BenchNode) -> None:
    line = opened(node)
    assert line.feed(b"\x03\0\0\0\0") == []
    for bad in (push_of(1, version=3), push_of(0)):
        with pytest.raises(WireError):
            opened(node).send(bad)
    with pytest.raises(WireError):
        opened(node).feed(b"\x02\x01\0\0\0\0")


# --- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("purpose", "live_ends", "catch_up_ends"),
    [(Purpose.LIVE, True, True), (Purpose.CATCH_UP, False, True)],
    ids=["live", "catch-up"],
)
def test_a_new_connection_ends_the_old_one_of_its_purpose_and_a_live_one_both(
    node: BenchNode, purpose: Purpose, live_ends: bool, catch_up_ends: bool
) -> None:
    live, catch_up = opened(node, purpose=Purpose.LIVE), opened(node, purpose=Purpose.CATCH_UP)
    new = opened(node, purpose=purpose)
    assert (bool(live.closed), bool(catch_up.closed), new.closed) == (live_ends, catch_up_ends, "")
    for line, ended in ((live, live_ends), (catch_up, catch_up_ends)):
        if ended:
            with pytest.raises(WireError):
                line.send(push_of(1, all_of(leader_log())))
            assert node.broker.topics["a"].partitions[0].log.last == 0
        else:
            assert line.send(push_of(1)) == [PushAnswer(1, 0, [])]


def test_another_brokers_connections_stay(node: BenchNode) -> None:
    node.controller.view.brokers[OTHER] = BrokerView(OTHER, 41, "127.0.0.1", 11013, "")
    first = opened(node)
    opened(node, replica_id=OTHER, broker_epoch=41)
    assert not first.closed


# --- pushes ----------------------------------------------------------------------------------------


def test_a_push_is_stored_byte_for_byte_and_its_fsync_told_later(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    told = the_answer(line.send(push_of(7, all_of(theirs, mark=2))))
    assert told == PushedPartition(10, 0, PushError.NONE, 3, 0, 3, 5)
    partition = node.broker.topics["a"].partitions[0]
    assert_copies(theirs.log(), partition.log)
    assert partition.high_water_mark == 2
    node.sync()
    assert line.answers() == [PushAnswer(0, 7, [PushedPartition(10, 0, PushError.NONE, 3, 3, 3, 5)])]


def test_matched_is_the_end_of_the_stretch_and_never_the_logs(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    node.sync()
    line.answers()
    empty = Stretch(10, 5, 5, 9, 1, b"", b"")
    told = the_answer(line.send(push_of(2, (2, empty))))
    assert (told.matched, told.synced, told.log_end) == (1, 1, 3)
    assert node.broker.topics["a"].partitions[0].high_water_mark == 1, "no further than it matched"


def test_a_heartbeat_is_answered_and_many_partitions_in_their_order(node: BenchNode) -> None:
    line = opened(node)
    assert line.send(push_of(1)) == [PushAnswer(1, 0, [])]
    first = all_of(leader_log())
    second = (1, Stretch(999, 5, 0, 0, 1, b"", b""))
    [answer] = line.send(push_of(2, second, first))
    assert isinstance(answer, PushAnswer)
    assert [(told.topic_id, told.error) for told in answer.partitions] == [
        (999, PushError.UNKNOWN_PARTITION),
        (10, PushError.NONE),
    ]


def test_a_disagreement_is_answered_with_where_they_may_agree(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    told = the_answer(line.send(push_of(2, (7, Stretch(10, 6, 6, 0, 1, b"", b"")))))
    assert (told.error, told.log_end, told.epoch_at_log_end) == (PushError.DISAGREES, 3, 5)
    assert (told.matched, told.synced) == (0, 0)


def test_nothing_that_a_bad_push_carries_is_stored_and_the_connection_goes_on(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    start, good = all_of(theirs)
    spoiled = good._replace(batches=bytes(good.batches)[:-1] + b"!")
    assert the_answer(line.send(push_of(1, (start, spoiled)))).error == PushError.BAD_BATCH
    assert node.metrics.refused["bad_record"] == 1
    assert the_answer(line.send(push_of(2, (start, good)))).matched == 3


def test_orders_of_an_older_epoch_and_of_who_does_not_lead_are_refused(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log(epoch=4)
    assert the_answer(line.send(push_of(1, all_of(theirs, epoch=4)))).error == PushError.STALE_LEADER
    place(node, "a", 10, leader=OTHER, leader_epoch=6)
    told = the_answer(line.send(push_of(2, all_of(theirs, epoch=6))))
    assert told.error == PushError.STALE_LEADER, "the view says who leads in epoch 6"
    assert node.broker.topics["a"].partitions[0].log.last == 0


def test_an_epoch_above_the_views_is_believed_and_older_ones_refused_from_then_on(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log(epoch=5)
    assert the_answer(line.send(push_of(1, all_of(theirs, epoch=8)))).error == PushError.NONE
    assert node.broker.topics["a"].partitions[0].leader_epoch == 8
    more = all_of(theirs, 4, epoch=5)
    assert the_answer(line.send(push_of(2, more))).error == PushError.STALE_LEADER


def test_a_new_epoch_cuts_nothing_though_the_mark_is_far_behind(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs, mark=1)))
    told = the_answer(line.send(push_of(2, (4, Stretch(10, 8, 5, 1, 1, b"", b"")))))
    assert (told.error, told.matched) == (PushError.NONE, 3)
    partition = node.broker.topics["a"].partitions[0]
    assert (partition.high_water_mark, partition.log.last) == (1, 3)
    assert_copies(theirs.log(), partition.log)


def test_before_the_view_has_reached_the_registration_no_orders_are_taken(node: BenchNode) -> None:
    line = opened(node)
    node.controller.broker_epoch = 60  # registered anew, and the view is at 50
    told = the_answer(line.send(push_of(1, all_of(leader_log()))))
    assert told.error == PushError.NOT_READY


def test_a_topic_made_again_under_its_name_takes_nothing_of_the_old_one(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    old = node.broker.topics["a"].partitions[0].log
    show(node.controller.view, without=(10,))
    place(node, "a", 20)
    told = the_answer(line.send(push_of(2, all_of(theirs, 4))))
    assert told.error == PushError.UNKNOWN_PARTITION
    fresh = leader_log(2)
    assert the_answer(line.send(push_of(3, all_of(fresh, topic_id=20)))).error == PushError.NONE
    new = node.broker.topics["a"].partitions[0].log
    assert (new.folder != old.folder, new.last, old.state) == (True, 2, LogState.CLOSED)


def test_a_push_goes_into_the_partition_of_its_topics_id_and_of_no_other(node: BenchNode) -> None:
    place(node, "b", 20)
    line, theirs = opened(node), leader_log()
    assert the_answer(line.send(push_of(1, all_of(theirs, topic_id=20)))).matched == 3
    a, b = (node.broker.topics[name].partitions[0].log for name in ("a", "b"))
    assert (a.last, b.last) == (0, 3)
    # The view has the topic that was made again already, and the log here is still the old one's.
    again = node.controller.view.topic_by_id(20)
    assert again is not None
    show(node.controller.view, dataclasses.replace(again, topic_id=30))
    told = the_answer(line.send(push_of(2, all_of(theirs, topic_id=30))))
    assert told.error == PushError.UNKNOWN_PARTITION


def test_what_is_damaged_waits_until_it_is_out_of_sync_and_is_filled_anew(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    partition = node.broker.topics["a"].partitions[0]
    place(node, "a", 10, in_sync=(OWN, LEADER, OTHER))
    partition.log.spoiled("a bad batch")
    partition.note_state()
    assert the_answer(line.send(push_of(2, all_of(theirs, 4)))).error == PushError.DAMAGED
    assert partition.log.last == 3, "left as it is"
    place(node, "a", 10, in_sync=(LEADER, OTHER))
    told = the_answer(line.send(push_of(3, all_of(theirs, 4))))
    assert (told.error, told.log_end) == (PushError.DISAGREES, 0)
    told = the_answer(line.send(push_of(4, all_of(theirs, 1, mark=3))))
    assert (told.error, told.matched) == (PushError.NONE, 3)
    assert node.data_folder.claims().damaged == ((10, 0),), "it is not whole before it is synced"
    node.sync()
    assert node.data_folder.claims().damaged == ()
    assert_copies(theirs.log(), partition.log)


def test_a_difference_below_the_mark_stops_the_replica_and_is_reported(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs, mark=3)))
    others = Folder()
    for value in (b"value-0", b"other", b"another"):
        append(others.log(), value, epoch=6)
    told = the_answer(line.send(push_of(2, all_of(others, epoch=6))))
    assert told.error == PushError.NOT_READY, "the view may yet tell of a lossy election"
    place(node, "a", 10, leader_epoch=6)
    told = the_answer(line.send(push_of(3, all_of(others, epoch=6))))
    assert told.error == PushError.DIVERGED
    log = node.broker.topics["a"].partitions[0].log
    assert (log.state, log.last) == (LogState.FAILED, 3)
    assert "up to the high-water mark 3" in log.reason


def test_who_is_not_obeyed_takes_no_answer_from_who_is(node: BenchNode) -> None:
    node.controller.view.brokers[OTHER] = BrokerView(OTHER, 41, "127.0.0.1", 11013, "")
    old, new = opened(node), opened(node, replica_id=OTHER, broker_epoch=41)
    theirs = leader_log(epoch=6)
    for leader_epoch in (5, 6):  # the view may know of the new leader, or not yet
        assert the_answer(new.send(push_of(leader_epoch, all_of(theirs, epoch=6)))).synced == 0
        assert the_answer(old.send(push_of(9, all_of(leader_log())))).error == PushError.STALE_LEADER
        place(node, "a", 10, leader=OTHER, leader_epoch=6)
        assert the_answer(old.send(push_of(10, all_of(theirs, epoch=6)))).error == PushError.STALE_LEADER
    node.sync()
    assert new.answers() == [PushAnswer(0, 6, [PushedPartition(10, 0, PushError.NONE, 3, 3, 3, 6)])]
    assert old.answers() == []


def test_an_epoch_of_a_stretch_that_no_log_can_have_is_not_believed(node: BenchNode) -> None:
    line = opened(node)
    told = the_answer(line.send(push_of(1, (0, Stretch(10, 2**32 - 1, 0, 0, 1, b"", b"")))))
    assert told.error == PushError.BAD_BATCH
    assert node.broker.topics["a"].partitions[0].leader_epoch == 5


def test_a_memory_of_producers_that_is_torn_is_refused_before_anything_is_dropped(node: BenchNode) -> None:
    line, log = opened(node), node.broker.topics["a"].partitions[0].log
    line.send(push_of(1, all_of(leader_log())))
    held = records_of(log)
    assert held
    start = log.last + 9
    told = the_answer(line.send(push_of(2, (start, Stretch(10, 5, 5, 0, start, b"", b"", b"torn")))))
    assert (told.error, records_of(log)) == (PushError.BAD_BATCH, held)


def test_a_memory_of_producers_is_taken_as_it_was_sent(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads 100,000 producers for it: its checksum holds."""
    line, log = opened(node), node.broker.topics["a"].partitions[0].log
    known = Producers()
    known.append(7, 0, ProducedBatch(0, 1, 8, 0), 1)
    with monkeypatch.context() as unread:
        unread.setattr(Producers, "restore", None)
        told = the_answer(line.send(push_of(1, (9, Stretch(10, 5, 5, 0, 9, b"", b"", known.snapshot())))))
    assert (told.error, log.last) == (PushError.NONE, 8)
    assert log.tail.check_producer(7, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 8, 8)


def test_what_was_staged_by_a_leader_that_is_one_no_more_counts_in_no_answer(node: BenchNode) -> None:
    place(node, "a", 10, leader=OWN, leader_epoch=5)
    partition = node.broker.topics["a"].partitions[0]
    line, told = opened(node), Told()
    node.broker.begin_tick()
    partition.append(memoryview(batch_of(b"staged")), told, 0)
    assert partition.log.last == 1
    answer = the_answer(line.send(push_of(1, (2, Stretch(10, 6, 5, 0, 1, b"", b"")))))
    assert (answer.error, answer.log_end, answer.epoch_at_log_end) == (PushError.DISAGREES, 0, 0)
    assert told.told == {0: (ErrorCode.NO_LEADER, 0, 0)}


def tell_brokers(node: BenchNode) -> None:
    """The view of the brokers has changed."""
    for listener in node.controller.tell_brokers:
        listener()


def test_a_connection_ends_when_the_view_knows_of_a_later_process(node: BenchNode) -> None:
    node.controller.view.brokers[OTHER] = BrokerView(OTHER, 41, "127.0.0.1", 11013, "")
    line, other = opened(node), opened(node, replica_id=OTHER, broker_epoch=41)
    tell_brokers(node)
    assert not line.closed
    node.controller.view.brokers[LEADER] = BrokerView(LEADER, LEADER_EPOCH + 9, "127.0.0.1", 11012, "")
    tell_brokers(node)
    assert (line.closed, other.closed) == ("replaced", "")
    with pytest.raises(WireError):
        line.send(push_of(1, all_of(leader_log())))
    del node.controller.view.brokers[OTHER]
    tell_brokers(node)
    assert other.closed, "a broker that was removed leads nothing"


def test_what_a_closed_connection_carried_is_told_to_nobody(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    line.session.close()
    node.sync()
    assert line.answers() == []


@pytest.mark.parametrize("step", [1, 7, 50])
def test_a_push_may_come_in_pieces(node: BenchNode, step: int) -> None:
    line, theirs = opened(node), leader_log(20)
    push = push_of(1, all_of(theirs))
    data = b"".join(frame(push.ID, push.encode()))
    answers = [one for at in range(0, len(data), step) for one in line.feed(data[at : at + step])]
    assert the_answer(answers).matched == 20
    assert_copies(theirs.log(), node.broker.topics["a"].partitions[0].log)


def test_a_push_cut_anywhere_or_with_more_behind_is_refused(node: BenchNode) -> None:
    push = push_of(1, all_of(leader_log(1)))
    payload = b"".join(push.encode())
    for end in range(len(payload)):
        line = opened(node)
        with pytest.raises(WireError):
            line.feed(b"".join(frame(push.ID, [payload[:end]])))
    with pytest.raises(WireError):
        opened(node).feed(b"".join(frame(push.ID, [payload + b"x"])))
    assert node.broker.topics["a"].partitions[0].log.last == 0
