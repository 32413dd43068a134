"""DescribeBroker (76): this broker's disk, its files, and its partitions in trouble."""

from typing import TYPE_CHECKING

from tank_node.broker.problems import waiting_for_disk
from tank_node.log.log import LogState
from tank_node.tank.ends import UNKNOWN
from tank_node.version import version_and_kernel
from tank_protos.error_codes import TroubleKind
from tank_protos.generated.tank import (
    DescribeBrokerRequest,
    DescribeBrokerResponse,
    PartitionTrouble,
    StrayFolder,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

_LONGEST_REASON = 1000
"""Longer reasons are cut, so that ten thousand of them fit an answer. A reason names a file and the system's
error."""
_KINDS = {LogState.FAILED: TroubleKind.FAILED, LogState.DAMAGED: TroubleKind.DAMAGED}


def describe_broker(session: "TankSession", payload: memoryview) -> None:
    """Answers with the state of this broker alone."""
    request = DescribeBrokerRequest.decode(payload)
    broker = session.broker
    usage = broker.usage()
    answer = DescribeBrokerResponse(
        request_id=request.request_id,
        broker_id=broker.link.view.broker_id,
        software_version=version_and_kernel(),
        started_ms=broker.started_ms,
        uptime_ms=broker.tick.monotonic_ms - broker.started_monotonic_ms,
        data_folder=usage.path,
        data_bytes=usage.data_bytes,
        free_bytes=usage.space.free if usage.space else UNKNOWN,
        disk_bytes=usage.space.size if usage.space else UNKNOWN,
        open_files=usage.open_files,
        connections=session.metrics.connections,
        troubles=_troubles(session),
        stray_folders=[StrayFolder(name, size) for name, size in usage.strays],
    )
    session.answer(answer)


def _troubles(session: "TankSession") -> list[PartitionTrouble]:
    found = []
    beliefs = session.broker.followers.beliefs.held(session.broker.tick.monotonic_ms)
    for name, topic in sorted(session.broker.topics.items()):
        for number in range(len(topic.view.partitions)):
            partition = topic.partitions.get(number)
            if partition is not None:
                kind = _KINDS.get(partition.log.state)
                reason = partition.log.reason
                if kind is None and (waits := waiting_for_disk(session.broker, partition.log)) is not None:
                    kind, reason = TroubleKind.HANGS, waits
                elif kind is None and (claim := beliefs.get(partition)) is not None:
                    kind, reason = TroubleKind.UNKNOWN_EPOCH, claim.text
            else:
                kind = TroubleKind.NOT_OPENED if number in topic.broken else None
                reason = topic.broken.get(number, "")
            if kind is not None:
                found.append(PartitionTrouble(name, number, kind, reason[:_LONGEST_REASON]))
    return found
