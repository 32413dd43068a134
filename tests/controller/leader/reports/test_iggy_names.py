"""What operators are shown of Iggy's clients comes in messages of bounded size."""

import pytest

from tank_controller.leader.reports.iggy_names import names_parts
from tank_controller.leader.reports.overview import partition_parts
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands.iggy.iggy_cluster import IggyCluster, option

TOPICS = 40


@pytest.fixture
def cluster() -> IggyCluster:
    """A user's topics, each with as many options as it may have."""
    cluster = IggyCluster()
    stream = cluster.stream()
    options = [option("preallocate_segments", "x" * 1_000)] * 64
    for number in range(TOPICS):
        topic_id = cluster.topic_in(stream, f"t{number}", values=pb.IggyValues(options=options))
        cluster.group(topic_id)
    return cluster


def test_names_are_cut_by_their_bytes(cluster: IggyCluster) -> None:
    parts = list(names_parts(cluster.state))
    assert max(part.ByteSize() for part in parts) < 2 * PART_BYTES
    assert [each.name for part in parts for each in part.streams] == ["main"]
    assert [each.topic.iggy.number for part in parts for each in part.topics] == list(range(TOPICS))
    assert sum(len(part.groups) for part in parts) == TOPICS


def test_partitions_are_cut_by_the_bytes_of_their_topics(cluster: IggyCluster) -> None:
    parts = list(partition_parts(cluster.state, pb.PartitionsRequest()))
    assert max(part.ByteSize() for part in parts) < 2 * PART_BYTES
    assert sum(len(part.topics) for part in parts) == TOPICS
    assert sum(len(part.partitions) for part in parts) == TOPICS
