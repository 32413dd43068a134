"""What is sent to one follower next: windows, marks, catching up, answers that fit nothing."""

import pytest

from tank_node.replication.progress import ProgressState
from tank_node.replication.push_frame import Part, PushFrame
from tank_node.replication.stream import PushRefused, ReplicationStream
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import (
    PushAnswer,
    PushedPartition,
)
from tank_protos.wire.framing import HEADER_BYTES
from tests.support.nodes.push_model import (
    TOPIC_ID,
    ModelFollower,
    ModelLeader,
    decoded,
    entries,
    line_to,
    taken,
)


def connected(
    count: int = 5, followers: tuple[int, ...] = (1,)
) -> tuple[ModelLeader, ReplicationStream, ModelFollower]:
    """A leader with so many numbers, and a follower that has been asked and has them all."""
    leader = ModelLeader([1] * count, 2, followers)
    line, follower = line_to(1), ModelFollower([1] * count)
    leader.connect(line)
    line.answered(follower.take(line.next_frame(0)), 0)
    return leader, line, follower


def test_a_connection_begins_with_an_empty_stretch_at_the_leaders_end() -> None:
    leader = ModelLeader([1, 1], 2, (1,), mark=1)
    line = line_to(1)
    leader.connect(line)
    ((entry, content),) = entries(line.next_frame(0))
    assert (entry.partition, entry.base_seq_num) == (0, 3)
    assert content[:5] == (TOPIC_ID, 2, 1, 1, 1)
    assert not content.records
    leader.append()
    assert not line.next_frame(0), "one stretch at a time until it agrees"


def test_stretches_follow_each_other_without_waiting_and_within_the_window() -> None:
    leader, line, _ = connected()
    for _ in range(300):
        leader.append()
    starts = []
    while frame := line.next_frame(0):
        starts += [entry.base_seq_num for entry, _ in entries(frame)]
    assert starts == list(range(6, starts[-1] + 1, 3))
    assert len(starts) > 5, "more than one is under way"
    assert 4096 <= line.window_used < 4096 + 400


def test_an_answer_makes_room() -> None:
    leader, line, follower = connected()
    for _ in range(300):
        leader.append()
    sent = []
    while frame := line.next_frame(0):
        sent.append(frame)
    line.answered(follower.take(sent[0]), 0)
    assert line.next_frame(0)


def test_a_mark_is_told_by_the_next_beat_once_and_by_a_stretch_that_comes_before() -> None:
    leader, line, follower = connected()
    leader.append()
    line.answered(follower.take(line.next_frame(0)), 0)
    assert leader.mark == 6
    assert follower.mark < 6
    assert not line.next_frame(10)
    line.beat(50)
    frame = line.next_frame(50)
    ((_, content),) = entries(frame)
    assert (bool(content.records), content.high_water_mark) == (False, 6)
    line.answered(follower.take(frame), 50)
    assert follower.mark == 6
    line.beat(100)
    assert not line.next_frame(100), "once"
    leader.append()
    line.answered(follower.take(line.next_frame(100)), 100)
    leader.append()
    frame = line.next_frame(100)
    ((_, content),) = entries(frame)
    assert (bool(content.records), content.high_water_mark) == (True, 7)
    line.beat(150)
    assert not line.next_frame(150)


def test_a_log_start_is_told_by_the_next_beat_once_and_the_answer_counts() -> None:
    leader, line, follower = connected()
    ((_, place),) = leader.places.values()
    leader.drop_before(4)
    line.marked(place)
    assert not line.next_frame(10)
    line.beat(50)
    frame = line.next_frame(50)
    ((_, content),) = entries(frame)
    assert (bool(content.records), content.log_start) == (False, 4)
    assert leader.in_sync.lowest_start(4) == 1
    line.answered(follower.take(frame), 50)
    assert leader.in_sync.lowest_start(4) == 4
    line.beat(100)
    assert not line.next_frame(100), "once"


def test_a_heartbeat_names_nothing_and_comes_only_when_nothing_else_does() -> None:
    leader, line, _ = connected()
    assert not line.heartbeat(499)
    frame = line.heartbeat(500)
    assert decoded(frame).topics == []
    assert not line.heartbeat(2000), "it is not answered yet"
    assert line.silent_since_ms() == 500
    line.answered(PushAnswer(decoded(frame).request_id), 501)
    assert line.silent_since_ms() is None
    leader.append()
    line.answered(taken(line.next_frame(900)), 900)
    assert not line.heartbeat(1399)


def test_answers_to_what_was_sent_before_going_back_are_ignored() -> None:
    leader, line, follower = connected()
    for _ in range(9):
        leader.append()
    first, second = line.next_frame(0), line.next_frame(0)
    follower.log = [1] * 3  # it lost something that it had
    told = follower.take(first)
    assert told.partitions[0].error == PushError.DISAGREES
    late = taken(second)
    line.answered(told, 0)
    frame = line.next_frame(0)
    assert [entry.base_seq_num for entry, _ in entries(frame)] == [4]
    line.answered(late, 0)
    assert leader.in_sync.replicas[1].matched == 0
    line.answered(follower.take(frame), 0)
    assert leader.in_sync.replicas[1].matched == 6


def test_what_was_synced_later_counts_up_to_what_is_matched() -> None:
    leader, line, _ = connected()
    leader.in_sync.flush_disk = True
    leader.in_sync.synced = 5
    line.answered(PushAnswer(0, 1, [PushedPartition(TOPIC_ID, 0, 0, 9, 9, 9, 1)]), 0)
    assert (leader.in_sync.replicas[1].matched, leader.in_sync.replicas[1].synced) == (5, 5)


def test_where_a_followers_log_ends_counts_for_nothing() -> None:
    leader, line, _ = connected()
    leader.append()
    assert line.next_frame(0)
    line.answered(PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, 0, 6, 3, 9, 1)]), 0)
    replica = leader.in_sync.replicas[1]
    assert (replica.matched, replica.synced) == (6, 5), "5 were synced before"
    assert leader.mark == 6


def test_what_was_synced_before_going_back_does_not_count() -> None:
    leader, line, follower = connected()
    leader.append()
    frame = line.next_frame(0)
    follower.log = []
    line.answered(follower.take(frame), 0)
    line.answered(PushAnswer(0, 1, [PushedPartition(TOPIC_ID, 0, 0, 5, 5, 5, 1)]), 0)
    assert leader.in_sync.replicas[1].matched == 0


@pytest.mark.parametrize(
    "answer",
    [
        PushAnswer(7, 0, []),
        PushAnswer(2, 0, []),
        PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, 0, 7, 6, 7, 1)]),
        PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, 0, 6, 7, 6, 1)]),
        PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, 0, 5, 5, 6, 1)]),
        PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 1, 0, 6, 6, 6, 1)]),
        PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, 0xEE, 6, 6, 6, 1)]),
    ],
)
def test_an_answer_that_fits_nothing_ends_the_connection(answer: PushAnswer) -> None:
    leader, line, _ = connected()
    leader.append()
    assert line.next_frame(0)
    with pytest.raises(PushRefused):
        line.answered(answer, 0)
    assert leader.in_sync.replicas[1].matched == 5


@pytest.mark.parametrize(("error", "after_ms"), [(PushError.NOT_READY, 200), (PushError.STORAGE, 1000)])
def test_a_follower_that_cannot_is_asked_again(error: PushError, after_ms: int) -> None:
    leader, line, _ = connected()
    leader.append()
    line.next_frame(0)
    line.answered(PushAnswer(2, 0, [PushedPartition(TOPIC_ID, 0, error)]), 0)
    assert leader.in_sync.replicas[1].matched == 0
    leader.append()
    line.beat(after_ms - 1)
    assert not line.next_frame(after_ms - 1)
    line.beat(after_ms)
    ((entry, content),) = entries(line.next_frame(after_ms))
    assert (entry.base_seq_num, bool(content.records)) == (8, False)


def test_one_that_ended_before_the_log_start_begins_there() -> None:
    leader = ModelLeader([1] * 9, 2, (1,))
    leader.drop_before(7)
    line, follower = line_to(1), ModelFollower([1] * 3)
    leader.connect(line)
    for _ in range(2):
        line.answered(follower.take(line.next_frame(0)), 0)
    assert leader.read_ones == [7]
    assert follower.log == [1] * 9


def test_one_far_behind_leaves_the_live_connection_and_comes_back_when_it_is_near() -> None:
    leader = ModelLeader([1] * 100, 2, ())
    leader.batch_bytes = 100_000
    leader.in_sync.view(2, (0,), (0, 1), 1)
    line, follower = line_to(1), ModelFollower([])
    leader.connect(line)
    line.answered(follower.take(line.next_frame(0)), 0)
    (place,) = line.far_behind
    assert not line.next_frame(0), "nobody queues behind it"
    leader.disconnect(1)
    catching_up = line_to(1, bytes_per_s=1 << 30)
    leader.in_sync.connected(1, 1)
    leader.places[1] = catching_up, catching_up.add(leader, place.sent)
    for _ in range(100):
        if catching_up.caught_up:
            break
        catching_up.answered(follower.take(catching_up.next_frame(0)), 0)
    (place,) = catching_up.caught_up
    assert 90 <= place.matched < 100
    assert place.matched == len(follower.log)


def test_a_member_stays_on_the_live_connection_however_far_it_is_behind() -> None:
    leader = ModelLeader([1] * 100, 2, (1,))
    leader.batch_bytes = 100_000
    line, follower = line_to(1), ModelFollower([])
    leader.connect(line)
    line.answered(follower.take(line.next_frame(0)), 0)
    assert not line.far_behind
    assert line.next_frame(0)


def test_catching_up_takes_no_more_than_its_share() -> None:
    leader = ModelLeader([1] * 3000, 2, ())
    leader.batch_bytes = 10_000
    line, follower = line_to(1, bytes_per_s=1_000_000), ModelFollower([])
    leader.in_sync.view(2, (0,), (0, 1), 1)
    leader.in_sync.connected(1, 1)
    leader.places[1] = line, line.add(leader, 0)
    sent = 0
    for now_ms in range(0, 5000, 50):
        line.beat(now_ms)
        while frame := line.next_frame(now_ms):
            sent += decoded_size(frame)
            line.answered(follower.take(frame), now_ms)
    assert 4_500_000 < sent < 5_500_000


def decoded_size(frame: list[Part]) -> int:
    return sum(len(part) for part in frame if isinstance(part, bytes))


def test_what_is_removed_is_named_no_more_and_its_answers_count_for_nothing() -> None:
    leader, line, follower = connected()
    leader.append()
    frame = line.next_frame(0)
    leader.append()
    leader.disconnect(1)
    assert not line.next_frame(0)
    line.answered(follower.take(frame), 0)
    assert leader.in_sync.replicas[1].matched == 0


def test_a_frame_by_hand_is_what_the_codec_makes() -> None:
    leader, line, _ = connected()
    leader.append()
    frame = b"".join(bytes(part) for part in line.next_frame(0) if isinstance(part, bytes))
    assert b"".join(decoded([frame]).encode()) == frame[HEADER_BYTES:]


def test_a_frame_names_at_most_255_topics() -> None:
    frame = PushFrame()
    for number in range(255):
        name = b"topic-%d" % number
        assert frame.has_room(name)
        frame.add(name, 0, 1, (number, 1, 0, 0, 1), None)
    assert not frame.has_room(b"another")
    assert frame.has_room(b"topic-0")
    assert len(decoded(frame.finish(1)).topics) == 255


def test_a_push_has_the_version_that_the_feature_level_says() -> None:
    frame = PushFrame(version=0x1FF)
    frame.add(b"t", 0, 1, (9, 1, 0, 0, 1), None)
    assert decoded(frame.finish(1)).client_version == 0x1FF


def test_what_begins_at_the_leaders_start_brings_what_is_remembered_of_producers_before() -> None:
    leader, line = ModelLeader([1] * 6, 2, (1,)), line_to(1)
    leader.drop_before(4)
    leader.connect(line)
    told = ModelFollower([]).take(line.next_frame(0))
    line.answered(told, 0)
    follower = ModelFollower([])
    ((entry, first),) = entries(frame := line.next_frame(0))
    assert (entry.base_seq_num, first.producers, len(first.records) > 0) == (4, b"before 4", True)
    line.answered(follower.take(frame), 0)
    leader.append()
    ((_, later),) = entries(line.next_frame(0))
    assert not later.producers


def test_a_log_that_retention_has_emptied_is_pushed_as_what_is_remembered_of_producers() -> None:
    leader, line = ModelLeader([1] * 6, 2, (1,)), line_to(1)
    leader.drop_before(7)
    leader.connect(line)
    ((entry, content),) = entries(line.next_frame(0))
    assert (entry.base_seq_num, content.producers, len(content.records)) == (7, b"before 7", 0)


def test_nothing_is_remembered_before_the_first_message() -> None:
    leader, line = ModelLeader([1, 1], 2, (1,)), line_to(1)
    leader.connect(line)
    line.answered(ModelFollower([]).take(line.next_frame(0)), 0)
    ((entry, content),) = entries(line.next_frame(0))
    assert (entry.base_seq_num, content.producers) == (1, b"")


def test_a_place_that_waits_to_leave_sends_nothing_more() -> None:
    leader, line, follower = connected(count=1)
    leader.in_sync.view(2, (0,), (0, 1), 1)
    leader.batch_bytes = 100_000
    for _ in range(100):
        leader.append()
    first = line.next_frame(0)
    assert line.next_frame(0) == [] or line.unanswered
    line.beat(0)
    (place,) = line.places.values()
    assert place.state is ProgressState.LEAVING
    line.answered(follower.take(first), 0)
    while line.unanswered:
        sent = line.unanswered[0]
        parts = [PushedPartition(TOPIC_ID, 0, 0, last, last, last, 2) for _, _, last in sent.parts]
        line.answered(PushAnswer(sent.request_id, 0, parts), 0)
    assert place in line.far_behind


def test_one_that_retention_has_overtaken_begins_where_the_log_does() -> None:
    leader, line, _ = connected()
    for _ in range(9):
        leader.append()
    line.news.clear()
    leader.drop_before(9)
    leader.append()
    ((entry, content),) = entries(line.next_frame(0))
    assert (entry.base_seq_num, content.log_start) == (9, 9)


def test_a_leader_that_steps_down_while_it_reads_or_is_answered_pushes_no_more() -> None:
    for step in ("reads", "is answered", "is refused"):
        leader, line, follower = connected()
        leader.append()
        frame = [] if step == "reads" else line.next_frame(0)
        leader.append()
        leader.steps_down = True
        if step == "is answered":
            line.answered(follower.take(frame), 0)
        elif frame:
            refused = PushedPartition(TOPIC_ID, 0, PushError.BAD_BATCH, 0, 0, 5, 1)
            line.answered(PushAnswer(2, 0, [refused]), 0)
        assert not line.next_frame(0)
        line.beat(5000)
        assert not line.next_frame(5000)
        assert not line.places
