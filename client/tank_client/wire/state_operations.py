"""Positions, producer ids and the broker's own state as operations; pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from tank_client import errors
from tank_client.model import (
    Address,
    BrokerReport,
    ClientProtocol,
    ClusterReport,
    CommittedPosition,
    ConnectedClient,
    ConnectionPage,
    Features,
    PartitionTrouble,
    ProducerIdentity,
    Route,
    ServerStatus,
    StrayFolder,
    Topology,
    TopologyNode,
    Trouble,
)
from tank_client.wire.operations import (
    ClientOperation,
    address_of,
    error_of,
    need,
    need_newer_than_old_document,
)
from tank_protos.error_codes import ConnectionProtocol, TroubleKind
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    DescribeBrokerRequest,
    DescribeBrokerResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
    DiscoverTopologyRequest,
    DiscoverTopologyResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    InitProducerRequest,
    InitProducerResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    PositionToCommit,
    ReserveProducerIdsRequest,
    ReserveProducerIdsResponse,
    StatusRequest,
    StatusResponse,
)

_STAND_ALONE = 0xFFFF
_UNKNOWN = 2**64 - 1
_PROTOCOLS: dict[int, ClientProtocol] = {
    ConnectionProtocol.TANK: ClientProtocol.TANK,
    ConnectionProtocol.KAFKA: ClientProtocol.KAFKA,
    ConnectionProtocol.IGGY: ClientProtocol.IGGY,
}
_TROUBLES: dict[int, Trouble] = {
    TroubleKind.FAILED: Trouble.FAILED,
    TroubleKind.DAMAGED: Trouble.DAMAGED,
    TroubleKind.NOT_OPENED: Trouble.NOT_OPENED,
    TroubleKind.HANGS: Trouble.HANGS,
    TroubleKind.UNKNOWN_EPOCH: Trouble.UNKNOWN_EPOCH,
}


NO_MEMBER: Final = ("", -1)


def commit_positions(
    group: str, positions: Mapping[Route, CommittedPosition], member: tuple[str, int] = NO_MEMBER
) -> ClientOperation[None]:
    """Stores the next number to read of each topic and partition. `member`: the id and the epoch of the
    member that commits."""
    routes = list(positions)

    def build(server: Features) -> CommitPositionsRequest:
        need(server, "commit_positions", "committed positions", "keep positions yourself")
        return CommitPositionsRequest(
            version=int(member != NO_MEMBER),
            group=group,
            member_id=member[0],
            member_epoch=member[1],
            positions=[
                PositionToCommit(topic=t, partition=p, sequence_number=kept.number, metadata=kept.metadata)
                for (t, p), kept in positions.items()
            ],
        )

    def read(answer: CommitPositionsResponse, server: Features) -> None:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        if len(answer.results) != len(routes):
            raise errors.ProtocolViolation("a commit answer with another number of entries than the request")
        for (topic, partition), result in zip(routes, answer.results, strict=True):
            error = error_of(result.error, topic, partition)
            if error is not None:
                raise error

    return ClientOperation(
        f"commit positions of {group}", build, lambda server: CommitPositionsResponse, read
    )


def fetch_positions(group: str, topics: Iterable[str]) -> ClientOperation[dict[Route, CommittedPosition]]:
    """Fetches the positions of a group; none when it has committed none. An UnknownTopic about several topics
    does not name the topic.
    """
    names = list(topics)
    topic = names[0] if len(names) == 1 else ""

    def build(server: Features) -> FetchPositionsRequest:
        need(server, "fetch_positions", "committed positions", "keep positions yourself")
        return FetchPositionsRequest(group=group, topics=names)

    def read(answer: FetchPositionsResponse, server: Features) -> dict[Route, CommittedPosition]:
        error = error_of(answer.error, topic, -1, answer.message)
        if isinstance(error, errors.UnknownGroup):
            return {}
        if error is not None:
            raise error
        return {
            (p.topic, p.partition): CommittedPosition(p.sequence_number, p.metadata, p.committed_ms)
            for p in answer.positions
        }

    return ClientOperation(f"positions of {group}", build, lambda server: FetchPositionsResponse, read)


def list_groups() -> ClientOperation[list[str]]:
    """The groups that have positions, sorted."""

    def build(server: Features) -> ListGroupsRequest:
        need(server, "list_groups", "consumer groups")
        return ListGroupsRequest()

    def read(answer: ListGroupsResponse, server: Features) -> list[str]:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        return list(answer.groups)

    return ClientOperation("list groups", build, lambda server: ListGroupsResponse, read)


def init_producer(name: str, generation: int) -> ClientOperation[ProducerIdentity]:
    """A producer id. Repeatable: an unused id costs nothing, and a name gets the same id again."""

    def build(server: Features) -> InitProducerRequest:
        need(server, "init_producer", "idempotent producers", "use ProducerSettings(idempotent=False)")
        return InitProducerRequest(name=name, generation=generation)

    def read(answer: InitProducerResponse, server: Features) -> ProducerIdentity:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return ClientOperation("get a producer id", build, lambda server: InitProducerResponse, read)


def reserve_producer_ids(count: int) -> ClientOperation[range]:
    """Producer ids in sequence. Repeatable: an unused id costs nothing."""

    def build(server: Features) -> ReserveProducerIdsRequest:
        need(server, "reserve_producer_ids", "producer ids in sequence", "ask for one at a time")
        return ReserveProducerIdsRequest(count=count)

    def read(answer: ReserveProducerIdsResponse, server: Features) -> range:
        error = error_of(answer.error, "", -1, answer.message)
        if error is not None:
            raise error
        return range(answer.first_id, answer.first_id + answer.count)

    return ClientOperation("reserve producer ids", build, lambda server: ReserveProducerIdsResponse, read)


def status() -> ClientOperation[ServerStatus]:
    """The Status of the broker."""

    def build(server: Features) -> StatusRequest:
        need_newer_than_old_document(server, "Status")
        return StatusRequest()

    def read(answer: StatusResponse, server: Features) -> ServerStatus:
        aware = bool(answer.cluster_aware)
        return ServerStatus(
            version=answer.version,
            cluster_aware=aware,
            cluster_name=answer.cluster_name if aware else "",
            live_nodes=answer.live_nodes if aware else 1,
            topics=answer.topics,
            partitions=answer.partitions,
            open_partitions=answer.open_partitions,
            opening_ms=answer.opening_ms,
            start_time_s=answer.start_time_s,
        )

    return ClientOperation("status", build, lambda server: StatusResponse, read)


def describe_broker() -> ClientOperation[BrokerReport]:
    """The broker's report on itself."""

    def build(server: Features) -> DescribeBrokerRequest:
        need(server, "describe_broker", "describing itself", "`status` works with any broker")
        return DescribeBrokerRequest()

    def read(answer: DescribeBrokerResponse, server: Features) -> BrokerReport:
        return BrokerReport(
            broker_id=answer.broker_id,
            software_version=answer.software_version,
            started_ms=answer.started_ms,
            uptime_ms=answer.uptime_ms,
            data_folder=answer.data_folder,
            data_bytes=answer.data_bytes,
            free_bytes=_known(answer.free_bytes),
            disk_bytes=_known(answer.disk_bytes),
            open_files=answer.open_files,
            connections=answer.connections,
            troubles=tuple(
                # A partition with a trouble that only newer brokers know is shown, too.
                PartitionTrouble(t.topic, t.partition, _TROUBLES.get(t.kind, Trouble.FAILED), t.reason)
                for t in answer.troubles
            ),
            stray_folders=tuple(
                StrayFolder(f"{answer.data_folder}/topics/{stray.name}", stray.size_bytes)
                for stray in answer.stray_folders
            ),
        )

    return ClientOperation("describe broker", build, lambda server: DescribeBrokerResponse, read)


def describe_cluster() -> ClientOperation[ClusterReport]:
    """The addresses of the cluster's processes, as the broker knows them."""

    def build(server: Features) -> DescribeClusterRequest:
        need(server, "describe_cluster", "naming its controllers", "name them yourself")
        return DescribeClusterRequest()

    def read(answer: DescribeClusterResponse, server: Features) -> ClusterReport:
        return ClusterReport(
            answer.cluster_id,
            tuple(Address(each.host, each.port) for each in answer.controllers),
            {known.name: tuple(each.address for each in known.addresses) for known in answer.hosts},
        )

    return ClientOperation("describe cluster", build, lambda server: DescribeClusterResponse, read)


def describe_connections(after: int, limit: int) -> ClientOperation[ConnectionPage]:
    """A page of the clients' connections to the broker, behind the one of this number."""

    def build(server: Features) -> DescribeConnectionsRequest:
        need(server, "describe_connections", "listing its clients' connections")
        return DescribeConnectionsRequest(after=after, limit=limit)

    def read(answer: DescribeConnectionsResponse, server: Features) -> ConnectionPage:
        found = tuple(
            ConnectedClient(
                number=each.number,
                protocol=_PROTOCOLS.get(each.protocol, ClientProtocol.UNKNOWN),
                address=Address(each.host, each.port) if each.host else None,
                client_id=each.client_id,
                software=each.software,
                software_version=each.software_version,
                connected_ms=each.connected_ms,
                received_bytes=_known(each.received_bytes),
                sent_bytes=_known(each.sent_bytes),
                in_flight=each.in_flight,
                requests={
                    seen.name: None if seen.api_version < 0 else seen.api_version for seen in each.requests
                },
            )
            for each in answer.connections
        )
        has_more = bool(answer.has_more and found)
        return ConnectionPage(answer.broker_id, found, found[-1].number if has_more else None)

    return ClientOperation("describe connections", build, lambda server: DescribeConnectionsResponse, read)


def _known(number: int) -> int | None:
    return None if number == _UNKNOWN else number


def topology() -> ClientOperation[Topology]:
    """The cluster's nodes."""

    def build(server: Features) -> DiscoverTopologyRequest:
        need_newer_than_old_document(server, "describing the topology")
        return DiscoverTopologyRequest()

    def read(answer: DiscoverTopologyResponse, server: Features) -> Topology:
        if answer.node_count == _STAND_ALONE:
            return Topology("", None)
        return Topology(
            answer.cluster_name,
            tuple(
                TopologyNode(
                    node_id=node.node_id,
                    address=address_of(node.ipv4, node.port) if node.bits & 1 else None,
                    available=bool(node.bits & 2),
                    blocked=bool(node.bits & 4),
                    partitions=node.partitions,
                )
                for node in answer.nodes
            ),
        )

    return ClientOperation("topology", build, lambda server: DiscoverTopologyResponse, read)
