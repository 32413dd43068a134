"""Commands that are sent again because their answer was lost: what they made is there, and is not refused."""

import pytest

from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands.iggy.iggy_cluster import IggyCluster

MAKER, OTHER = pb.Maker(broker_epoch=3, request=7), pb.Maker(broker_epoch=3, request=8)


def made_by(command: pb.Command, maker: pb.Maker) -> pb.Command:
    """The command, asked for by this broker."""
    made = pb.Command()
    made.CopyFrom(command)
    getattr(made, made.WhichOneof("command")).maker.CopyFrom(maker)
    return made


def test_a_repeat_finds_the_stream_that_it_has_made() -> None:
    cluster = IggyCluster()
    cluster.stream("first")
    command = made_by(cluster.create_stream("orders"), MAKER)
    number = cluster.do(command).number
    assert number == 1
    again = cluster.do(command)
    assert again.number == number
    assert not again.delta.streams
    assert len(cluster.state.iggy.streams) == 2
    for other in (cluster.create_stream("orders"), made_by(command, OTHER)):
        assert cluster.error(other) is ErrorCode.STREAM_EXISTS, "another client's"


def test_one_that_chose_its_number_is_known_again_too() -> None:
    cluster = IggyCluster()
    command = made_by(cluster.create_stream("far", 41), MAKER)
    assert cluster.do(command).number == cluster.do(command).number == 41


def test_streams_of_no_known_maker_are_never_repeats() -> None:
    cluster = IggyCluster()
    cluster.stream("a")
    assert cluster.error(cluster.create_stream("a")) is ErrorCode.STREAM_EXISTS


def test_a_stream_that_was_deleted_since_is_made_again() -> None:
    cluster = IggyCluster()
    command = made_by(cluster.create_stream("orders"), MAKER)
    cluster.do(command)
    cluster.do(cluster.delete_stream(cluster.state.iggy.streams[0]))
    assert cluster.do(command).delta.streams


def test_a_repeat_finds_its_topic_also_under_another_id() -> None:
    cluster = IggyCluster()
    command = made_by(cluster.create_in(cluster.stream(), "orders", 2), MAKER)
    first = cluster.do(command)
    again = cluster.do(command)
    assert (again.topic_id, again.number) == (first.topic_id, first.number)
    assert not again.delta.topics
    purged = cluster.do(cluster.purge(first.topic_id)).topic_id
    assert purged != first.topic_id
    assert cluster.do(command).topic_id == purged
    assert cluster.error(made_by(command, OTHER)) is ErrorCode.TOPIC_EXISTS


def test_a_repeat_finds_its_group() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream())
    command = made_by(cluster.create_group(topic, "readers"), MAKER)
    first = cluster.do(command)
    again = cluster.do(command)
    assert (again.topic_id, again.number) == (first.topic_id, first.number)
    assert not again.delta.iggy_groups
    assert cluster.error(made_by(command, OTHER)) is ErrorCode.GROUP_EXISTS


@pytest.mark.parametrize("kind", ["stream", "topic", "group"])
def test_it_is_known_over_a_snapshot_and_a_rename(kind: str) -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    topic = cluster.topic_in(stream)
    command = {
        "stream": cluster.create_stream("new"),
        "topic": cluster.create_in(stream, "new"),
        "group": cluster.create_group(topic, "new"),
    }[kind]
    command = made_by(command, MAKER)
    number = cluster.do(command).number
    cluster.do(cluster.rename_stream(stream, "renamed"))
    cluster.state = ClusterState.load(cluster.state.snapshot())
    assert cluster.do(command).number == number
