"""What is sent to a follower of many partitions."""

from tank_node.replication.stream import FRAME_STRETCHES
from tests.support.nodes.push_model import NamedLeader, decoded, entries, line_to, taken


def test_partitions_share_a_frame_and_one_without_news_is_not_named() -> None:
    line = line_to(1)
    leaders = [NamedLeader(number) for number in range(600)]
    for leader in leaders:
        leader.connect(line)
    asked = []
    while frame := line.next_frame(0):
        asked.append(frame)
        assert all(len(topic.partitions) <= 255 for topic in decoded(frame).topics)
        line.answered(taken(frame), 0)
    assert sum(len(entries(frame)) for frame in asked) == 600
    leaders[3].append()
    leaders[7].append()
    (frame,) = [line.next_frame(0)]
    assert [entry.partition for entry, _ in entries(frame)] == [3, 7]


def test_a_frame_has_no_more_stretches_than_a_follower_takes_in_one_turn() -> None:
    line = line_to(1)
    for number in range(FRAME_STRETCHES + 2):
        NamedLeader(number, topic=b"t%d" % (number // 200)).connect(line)
    frames = []
    while frame := line.next_frame(0):
        frames.append(frame)
        line.answered(taken(frame), 0)
    assert [len(entries(frame)) for frame in frames] == [FRAME_STRETCHES, 2]


def test_partitions_of_topics_that_take_turns_are_answered_in_the_frames_order() -> None:
    line = line_to(1)
    leaders = [NamedLeader(number, topic=b"t%d" % (number % 2)) for number in range(6)]
    for leader in leaders:
        leader.connect(line)
    frame = line.next_frame(0)
    assert [entry.partition for entry, _ in entries(frame)] == [0, 2, 4, 1, 3, 5]
    line.answered(taken(frame), 0)
    assert not line.unanswered
