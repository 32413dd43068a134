"""A cluster at the level of Iggy's names, and its commands as tests write them."""

from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.model import TopicState
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster

TEXT, WHOLE_NUMBER = 2, 12
"""Kinds of options' values."""


def option(key: str, value: str | int) -> pb.IggyOption:
    """As V11's clients send it."""
    if isinstance(value, int):
        return pb.IggyOption(key=key, kind=WHOLE_NUMBER, value=value.to_bytes(8, "little"))
    return pb.IggyOption(key=key, kind=TEXT, value=value.encode())


class IggyCluster(Cluster):
    """Three brokers by default."""

    def __init__(self, *brokers: int) -> None:
        super().__init__(*(brokers or (1, 2, 3)))
        self.raise_to(IGGY)

    # --- commands ---

    def create_stream(self, name: str, number: int | None = None) -> pb.Command:
        return pb.Command(now_ms=self.now_ms, create_stream=pb.CreateStream(name=name, number=number))

    def rename_stream(self, stream: StreamState, name: str) -> pb.Command:
        rename = pb.RenameStream(stream=stream.number, born=stream.born, name=name)
        return pb.Command(rename_stream=rename)

    def delete_stream(self, stream: StreamState) -> pb.Command:
        return pb.Command(delete_stream=pb.DeleteStream(stream=stream.number, born=stream.born))

    def create_in(
        self,
        stream: StreamState,
        name: str,
        partitions: int = 1,
        factor: int = 3,
        *,
        number: int | None = None,
        values: pb.IggyValues | None = None,
    ) -> pb.Command:
        create = pb.CreateIggyTopic(
            stream=stream.number,
            born=stream.born,
            name=name,
            number=number,
            partitions=partitions,
            replication_factor=factor,
            settings=[pb.Setting(key="log.format", value="kafka")],
            values=values or pb.IggyValues(compression=1),
        )
        return pb.Command(now_ms=self.now_ms, create_iggy_topic=create)

    def purge(self, topic_id: int) -> pb.Command:
        return pb.Command(purge_topic=pb.PurgeTopic(topic_id=topic_id))

    def shrink(self, topic_id: int, partitions: int) -> pb.Command:
        shrink = pb.ShrinkTopic(topic_id=topic_id, partitions=partitions)
        if (topic := self.state.topics.get(topic_id)) is not None:
            shrink.seen_partitions, shrink.seen_epoch_floor = len(topic.partitions), topic.epoch_floor
        return pb.Command(shrink_topic=shrink)

    def create_group(self, topic_id: int, name: str, number: int | None = None) -> pb.Command:
        create = pb.CreateIggyGroup(topic_id=topic_id, name=name, number=number)
        return pb.Command(create_iggy_group=create)

    def delete_group(self, topic_id: int, number: int) -> pb.Command:
        born = self.state.iggy.groups[topic_id][number].born
        delete = pb.DeleteIggyGroup(topic_id=topic_id, number=number, born=born)
        return pb.Command(delete_iggy_group=delete)

    def expose(self, topic_id: int, stream: StreamState, name: str) -> pb.Command:
        expose = pb.ExposeTopic(topic_id=topic_id, stream=stream.number, born=stream.born, name=name)
        return pb.Command(now_ms=self.now_ms, expose_topic=expose)

    def hide(self, topic_id: int) -> pb.Command:
        return pb.Command(hide_topic=pb.HideTopic(topic_id=topic_id))

    # --- done, and looked at ---

    def stream(self, name: str = "main") -> StreamState:
        """A new stream."""
        return self.state.iggy.streams[self.do(self.create_stream(name)).number]

    def topic_in(
        self,
        stream: StreamState,
        name: str = "orders",
        partitions: int = 1,
        values: pb.IggyValues | None = None,
    ) -> int:
        """A new topic's id."""
        return self.do(self.create_in(stream, name, partitions, values=values)).topic_id

    def group(self, topic_id: int, name: str = "readers") -> int:
        """A new group's number."""
        return self.do(self.create_group(topic_id, name)).number

    def of(self, topic_id: int) -> TopicState:
        return self.state.topics[topic_id]

    def part(self, topic_id: int) -> IggyPart:
        part = self.state.topics[topic_id].iggy
        assert part is not None
        return part

    def settings(self, topic_id: int) -> dict[str, str]:
        return self.state.topics[topic_id].settings
