"""DescribeLogDirs (35): this broker's data folder, and how large the replicas in it are. Each broker answers
for itself."""

from typing import TYPE_CHECKING

from tank_node.broker.broker import Broker
from tank_protos.generated.kafka import DescribeLogDirsRequest, DescribeLogDirsResponse
from tank_protos.generated.kafka.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_UNKNOWN = -1
_MOST_BYTES = 2**63 - 1


def describe_log_dirs(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the data folder as the only directory, and the replicas in it that were asked for."""
    request = DescribeLogDirsRequest.decode(body, call.version)
    broker = call.session.broker
    if request.topics is None:
        wanted = {name: set(topic.partitions) for name, topic in broker.topics.items()}
    else:
        wanted = {}
        for named in request.topics:
            wanted.setdefault(named.topic, set()).update(named.partitions)
    space = broker.volume.space
    result = DescribeLogDirsResult(
        log_dir=broker.data_folder.path,
        topics=_replicas(broker, wanted),
        total_bytes=_UNKNOWN if space is None else min(space.size, _MOST_BYTES),
        usable_bytes=_UNKNOWN if space is None else min(space.free, _MOST_BYTES),
    )
    call.answer(DescribeLogDirsResponse(results=[result]))


def _replicas(broker: Broker, wanted: dict[str, set[int]]) -> list[DescribeLogDirsTopic]:
    """The replicas that are open here, without those that the broker doesn't have."""
    found = []
    for name in sorted(wanted.keys() & broker.topics.keys()):
        open_here = broker.topics[name].partitions
        sizes = [
            # No replica here is known to be behind its own high-water mark, from which the lag counts.
            DescribeLogDirsPartition(number, open_here[number].log.size_bytes, 0, False)
            for number in sorted(wanted[name] & open_here.keys())
        ]
        if sizes:
            found.append(DescribeLogDirsTopic(name, sizes))
    return found
