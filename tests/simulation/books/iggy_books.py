"""What holds of the names of Iggy's clients after every entry of the controllers' log."""

from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb
from tests.simulation.world.world import must


def check_numbers(state: ClusterState, delta: pb.Delta) -> None:
    """A number is never two living things, nor is a name; and nothing is in a stream or topic that is
    gone."""
    topics = any(topic.HasField("iggy") for topic in delta.topics)
    if not (topics or delta.streams or delta.deleted_streams or delta.iggy_groups):
        return
    where = f"at entry {state.index}"
    streams = state.iggy.streams
    must(len({each.name for each in streams.values()}) == len(streams), "two streams of a name %s", where)
    parts = [topic.iggy for topic in state.topics.values() if topic.iggy is not None]
    numbers, names = (
        {(each.stream, each.number) for each in parts},
        {(each.stream, each.name) for each in parts},
    )
    must(len(numbers) == len(parts), "two topics of a number %s", where)
    must(len(names) == len(parts), "two topics of a name %s", where)
    must({stream for stream, _ in numbers} <= streams.keys(), "a topic of no stream %s", where)
    for topic_id, groups in state.iggy.groups.items():
        topic = state.topics.get(topic_id)
        must(topic is not None and topic.iggy is not None, "a group of no topic %s", where)
        must(len({each.name for each in groups.values()}) == len(groups), "two groups of a name %s", where)
