"""Deltas and answers in parts: together they are the whole, and no part is too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_controller.leader.brokers import requests
from tank_controller.state import view_parts
from tank_controller.state.model import PositionState, TopicState
from tank_controller.state.state import ClusterState
from tank_controller.state.view_parts import view_updates
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

TOPICS = st.builds(
    lambda number, name: pb.Topic(topic_id=number, name=name), st.integers(1, 1000), st.text(max_size=40)
)
DELTAS = st.builds(
    lambda topics, deleted, ended, level: pb.Delta(
        index=9, topics=topics, deleted_topics=deleted, ended_producers=ended, feature_level=level
    ),
    st.lists(TOPICS, max_size=20),
    st.lists(st.integers(1, 2**63), max_size=40),
    st.lists(st.integers(1, 2**63), max_size=40),
    st.integers(0, 3),
)


@given(DELTAS, st.integers(1, 400))
def test_the_parts_are_the_whole(delta: pb.Delta, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_parts, "PART_BYTES", most)
        updates = view_updates(delta)
    assert [u.more for u in updates] == [True] * (len(updates) - 1) + [False]
    assert all(not u.whole and u.delta.index == 9 for u in updates)
    merged = pb.Delta()
    for update in updates:
        merged.MergeFrom(update.delta)
        part = update.delta
        items = len(part.topics) + len(part.deleted_topics) + len(part.ended_producers)
        assert items <= 1 or part.ByteSize() <= most + 3
    assert merged == delta


def test_positions_and_groups_are_answered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PART_BYTES", 40)
    state = ClusterState()
    state.groups["g"] = {
        topic: {number: PositionState(number, b"note", 1) for number in range(4)} for topic in (3, 7)
    }
    state.groups["h" * 40] = {}
    question = pb.BrokerQuery(request_id=5, positions=pb.PositionsQuery(group="g"))
    parts = requests.query_answers(state, question)
    assert len(parts) > 1
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert all(part.request_id == 5 for part in parts)
    found = [(p.topic_id, p.partition) for part in parts for p in part.positions]
    assert found == [(topic, number) for topic in (3, 7) for number in range(4)]
    groups = requests.query_answers(state, pb.BrokerQuery(groups=pb.GroupsQuery()))
    assert [list(part.groups) for part in groups] == [["g"], ["h" * 40]]


def test_a_group_can_be_asked_for_by_topics_and_must_be_there() -> None:
    state = ClusterState()
    state.groups["g"] = {3: {0: PositionState(1, b"", 1)}, 7: {0: PositionState(2, b"", 1)}}
    state.topics = {number: TopicState(number, f"t{number}", 1, {}, []) for number in (3, 7)}
    (found,) = requests.query_answers(
        state, pb.BrokerQuery(positions=pb.PositionsQuery(group="g", topic_ids=[7]))
    )
    assert [p.topic_id for p in found.positions] == [7]
    (late,) = requests.query_answers(
        state, pb.BrokerQuery(positions=pb.PositionsQuery(group="g", topic_ids=[7, 8]))
    )
    assert (late.error, list(late.positions)) == (ErrorCode.UNKNOWN_TOPIC, [])
    (unknown,) = requests.query_answers(state, pb.BrokerQuery(positions=pb.PositionsQuery(group="x")))
    assert unknown.error == ErrorCode.UNKNOWN_GROUP
    (senseless,) = requests.query_answers(state, pb.BrokerQuery())
    assert senseless.error == ErrorCode.INVALID_REQUEST
