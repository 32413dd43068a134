"""Groups of Iggy's clients."""

import pytest

from tank_controller import limits
from tank_protos.error_codes import ErrorCode
from tests.controller.commands.iggy.iggy_cluster import IggyCluster
from tests.controller.commands_for_tests import delete


def test_they_get_the_lowest_free_number_of_their_topic() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    topic, other = cluster.topic_in(stream, "a"), cluster.topic_in(stream, "b")
    assert [cluster.group(topic, "x"), cluster.group(topic, "y"), cluster.group(other, "x")] == [0, 1, 0]
    assert cluster.do(cluster.create_group(topic, "z", 9)).number == 9
    cluster.do(cluster.delete_group(topic, 0))
    assert cluster.group(topic, "w") == 0
    seen = cluster.view.iggy
    assert [(each.number, each.name) for each in seen.groups(topic)] == [(0, "w"), (1, "y"), (9, "z")]
    assert seen.group(topic, 1) == seen.group_by_name(topic, "y")
    assert seen.group(topic, 2) is seen.group_by_name(topic, "x") is None


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = IggyCluster()
    topic, theirs = cluster.topic_in(cluster.stream()), cluster.topic("theirs")
    cluster.group(topic, "x")
    for name, number, error in (
        ("x", None, ErrorCode.GROUP_EXISTS),
        ("y", 0, ErrorCode.NUMBER_TAKEN),
        ("", None, ErrorCode.INVALID_NAME),
        ("y" * 256, None, ErrorCode.INVALID_NAME),
    ):
        assert cluster.error(cluster.create_group(topic, name, number)) is error
    assert cluster.error(cluster.create_group(theirs, "y")) is ErrorCode.UNKNOWN_TOPIC
    assert cluster.error(cluster.create_group(999, "y")) is ErrorCode.UNKNOWN_TOPIC
    late = cluster.delete_group(topic, 0)
    cluster.do(late)
    cluster.group(topic, "y")
    assert cluster.error(late) is ErrorCode.UNKNOWN_GROUP, "another one has the number"
    monkeypatch.setattr(limits, "MAX_IGGY_GROUPS_OF_A_TOPIC", 1)
    assert cluster.error(cluster.create_group(topic, "z")) is ErrorCode.LIMIT_REACHED
    monkeypatch.setattr(limits, "MAX_IGGY_GROUPS_OF_A_TOPIC", 9)
    monkeypatch.setattr(limits, "MAX_IGGY_GROUPS", 1)
    assert cluster.error(cluster.create_group(topic, "z")) is ErrorCode.LIMIT_REACHED


def test_they_go_with_their_topic() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream())
    cluster.group(topic)
    born = cluster.state.iggy.groups[topic][0].born
    cluster.do(delete(topic))
    assert cluster.state.iggy.group_count == 0
    assert cluster.view.iggy.group_born(born) is None
