"""The fields of the command by which a broker registers with the controllers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tank_node.limits import DAMAGED_NAMED
from tank_protos import feature_levels
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True)
class Registration:
    """This process, its data folder, and its addresses, as it registers them."""

    incarnation: bytes
    """16 random bytes that name this process."""
    disk_uuid: bytes
    tail_sure: bool
    host: str
    port: int
    """With `host`: the TANK port, for other brokers and for clients inside the network."""
    rack: str = ""
    flush_replicated: bool = False
    """The `flush` of topics that do not set it: `replicated`."""
    damaged: Callable[[], Sequence[tuple[int, int]]] = tuple
    """(topic id, partition) of the replicas that are damaged now."""
    replicates: bool = True
    """Whether the broker is registered as fenced, until its view has the registration. False for a broker
    that runs in one process with its controller: no other broker could take over."""
    folder_epoch: Callable[[], int] = int
    """Returns the broker epoch that the data folder holds now; 0: none. Called at every registration: a
    process that registers again has written its own epoch there meanwhile."""
    levels: Levels = feature_levels.OWN
    """The feature levels that this process supports."""
    endpoints: list[pb.Endpoint] = field(default_factory=list)
    """Endpoints beside `host` and `port`, by the names in `view`: outside, kafka, kafka-outside."""

    def message(self, broker_id: int) -> pb.RegisterBroker:
        """The command's fields."""
        own = pb.Endpoint(name="tank", host=self.host, port=self.port)
        damaged = self.damaged()
        all_damaged = len(damaged) > DAMAGED_NAMED
        named = () if all_damaged else damaged
        return pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=self.incarnation,
            disk_uuid=self.disk_uuid,
            tail_sure=self.tail_sure,
            endpoints=[own, *self.endpoints],
            rack=self.rack,
            damaged=[pb.PartitionRef(topic_id=topic, partition=number) for topic, number in named],
            all_damaged=all_damaged,
            replicates=self.replicates,
            flush_replicated=self.flush_replicated,
            min_level=self.levels.lowest,
            max_level=self.levels.highest,
            folder_epoch=self.folder_epoch(),
        )
