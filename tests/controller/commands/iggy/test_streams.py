"""Streams: their numbers and names, and what goes with them."""

import pytest

from tank_controller import limits
from tank_controller.leader.going_streams import going_on
from tank_protos.error_codes import ErrorCode
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands.iggy.iggy_cluster import IggyCluster
from tests.controller.commands_for_tests import create


def test_they_get_the_lowest_free_number_from_0_on_and_are_seen_by_brokers() -> None:
    cluster = IggyCluster()
    cluster.now_ms = 7
    first, second = cluster.stream("a"), cluster.stream("b")
    assert (first.number, second.number) == (0, 1)
    assert first.created_ms == 7
    cluster.do(cluster.delete_stream(first))
    third = cluster.stream("c")
    assert third.number == 0, "a number that became free is given again"
    assert third.born > second.born > first.born
    assert [(each.number, each.name) for each in cluster.view.iggy.streams()] == [(0, "c"), (1, "b")]
    seen = cluster.view.iggy.stream_by_name("c")
    assert seen == cluster.view.iggy.stream(0)
    assert seen is not None
    assert seen.born == third.born
    assert cluster.view.iggy.stream_by_name("a") is None


def test_a_client_may_choose_the_number() -> None:
    cluster = IggyCluster()
    assert cluster.do(cluster.create_stream("far", 41)).number == 41
    assert cluster.error(cluster.create_stream("other", 41)) is ErrorCode.NUMBER_TAKEN
    assert cluster.stream("near").number == 0


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_name_has_1_to_255_bytes(name: str) -> None:
    assert IggyCluster().error(IggyCluster().create_stream(name)) is ErrorCode.INVALID_NAME


def test_a_name_is_of_one_stream_and_free_again_when_it_is_given_up() -> None:
    cluster = IggyCluster()
    stream, other = cluster.stream("é" * 127), cluster.stream("other")
    assert cluster.error(cluster.create_stream("other")) is ErrorCode.STREAM_EXISTS
    assert cluster.error(cluster.rename_stream(stream, "other")) is ErrorCode.STREAM_EXISTS
    assert cluster.error(cluster.rename_stream(stream, "")) is ErrorCode.INVALID_NAME
    cluster.do(cluster.rename_stream(other, "renamed"))
    assert cluster.stream("other").number == 2
    assert not cluster.do(cluster.rename_stream(other, "renamed")).delta.streams, "it has the name already"


def test_a_stream_is_meant_by_number_and_birth() -> None:
    cluster = IggyCluster()
    gone = cluster.stream("a")
    cluster.do(cluster.delete_stream(gone))
    cluster.stream("b")
    for command in (
        cluster.rename_stream(gone, "c"),
        cluster.delete_stream(gone),
        cluster.create_in(gone, "orders"),
    ):
        assert cluster.error(command) is ErrorCode.UNKNOWN_STREAM


def test_a_stream_goes_with_its_topics_and_their_groups_and_leaves_those_of_other_protocols() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    own, theirs = cluster.topic_in(stream, partitions=3), cluster.topic("theirs")
    cluster.do(cluster.expose(theirs, stream, "shown"))
    cluster.group(own)
    cluster.group(theirs)
    deleted = cluster.do(cluster.delete_stream(stream)).delta
    assert list(deleted.deleted_topics) == [own]
    assert list(cluster.state.topics) == [theirs]
    assert cluster.of(theirs).iggy is None
    assert not list(cluster.state.iggy.all_groups())
    assert cluster.view.iggy.streams() == []
    assert cluster.view.iggy.groups(theirs) == []
    assert cluster.seen(theirs).iggy is None


def test_a_large_one_goes_topic_by_topic_and_is_out_of_sight_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_PARTITIONS_PER_COMMAND", 4)
    monkeypatch.setattr(limits, "GOING_PARTITIONS_PER_TICK", 4)
    cluster = IggyCluster()
    stream, kept = cluster.stream(), cluster.stream("kept")
    topics = [cluster.topic_in(stream, name, 3) for name in "abc"]
    theirs = cluster.topic("theirs")
    cluster.do(cluster.expose(theirs, stream, "d"))
    other = cluster.topic_in(kept)
    cluster.do(cluster.delete_stream(stream))
    assert set(cluster.state.topics) == {*topics, theirs, other}
    seen = cluster.view.iggy
    assert seen.stream(0) is None
    assert seen.stream_by_name("main") is None
    assert seen.topics(0) == []
    assert seen.topic(0, 0) is None
    assert seen.topic_by_name(0, "a") is None
    assert cluster.error(cluster.delete_stream(stream)) is ErrorCode.UNKNOWN_STREAM
    assert cluster.error(cluster.create_in(stream, "late")) is ErrorCode.UNKNOWN_STREAM
    assert cluster.error(cluster.create_stream("main")) is ErrorCode.STREAM_EXISTS
    assert cluster.stream("new").number == 2, "its number is not free yet"
    rounds = 0
    while steps := going_on(cluster.state):
        rounds += 1
        for step in steps:
            cluster.do(step)
    assert rounds == 2
    assert set(cluster.state.topics) == {theirs, other}
    assert cluster.of(theirs).iggy is None
    assert cluster.stream("main").number == 0


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 2)
    cluster = IggyCluster()
    cluster.stream("a")
    cluster.stream("b")
    assert cluster.error(cluster.create_stream("c")) is ErrorCode.LIMIT_REACHED


def test_below_the_level_every_command_is_refused() -> None:
    here = IggyCluster()
    stream = here.stream()
    topic = here.topic_in(stream)
    old = Cluster(1, 2, 3)
    theirs = old.topic()
    for command in (
        here.create_stream("a"),
        here.rename_stream(stream, "b"),
        here.delete_stream(stream),
        here.create_in(stream, "t"),
        here.purge(theirs),
        here.shrink(theirs, 0),
        here.create_group(topic, "g"),
        here.expose(theirs, stream, "t"),
        here.hide(theirs),
    ):
        assert old.error(command) is ErrorCode.LEVEL_TOO_LOW
    exposed = create("shown")
    exposed.create_topic.expose.stream = exposed.create_topic.expose.name = "s"
    assert old.state.topics[old.do(exposed).topic_id].iggy is None, "as a controller of an older version"
