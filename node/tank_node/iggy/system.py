"""What is no stream's: pings, the cluster, figures, clients (1, 10, 12, 13, 20 to 22)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.view import TopicView
from tank_node.iggy.clients import open_sessions
from tank_node.iggy.heartbeats import heartbeats_of
from tank_node.iggy.numbers import iggy_view
from tank_node.iggy.records import Sizes, with_sizes
from tank_node.iggy.refusals import refusal
from tank_node.peers.iggy.iggy_memberships import memberships_of
from tank_node.users.logins import ANONYMOUS_USER
from tank_protos.generated.iggy import (
    ClientDetails,
    DescribeOptionsRequest,
    DescribeOptionsResponse,
    GetClientRequest,
    GetClientsResponse,
    GetClusterMetadataResponse,
    GetStatsResponse,
    IggyClient,
    IggyClientGroup,
    IggyNode,
)
from tank_protos.generated.iggy.describe_options_response import DescribedOption
from tank_protos.iggy.eras import V11, Era
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.kinds import HeaderKind

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall, IggySession

_CLUSTER_NAME: Final = "tank"
_LEADER: Final = 0
_HEALTHY: Final = 0
_TCP: Final = 1
_NOBODY_OLD: Final = 0
_NOBODY: Final = 2**32 - 1
"""The number of the user of a client that has not logged in: until era A3, and from B1 on."""
_VERSIONS: Final = {V11.version: ("0.9.0", 9000)}
_CLASSIC_VERSION: Final = ("0.8.0", 8000)
"""The version of Iggy's server whose protocol clients find here, and as one number. Clients parse it."""
_MS_US: Final = 1000
_TOPIC_SCOPE: Final = 1
_TEXT, _U32, _U64 = HeaderKind.STRING, HeaderKind.UINT32, HeaderKind.UINT64
FORMAT_OPTION: Final = "iggy.format"
_TOPIC_OPTIONS: Final = (
    ("compression_algorithm", _TEXT, b"none", "kept and reported; messages are not compressed"),
    ("message_expiry", _U64, bytes(8), "microseconds; 0: as the broker's default"),
    ("max_topic_size", _U64, bytes(8), "bytes of each partition; 0: as the broker's default"),
    ("segment_size", _U64, bytes(8), "bytes of a log's segment"),
    ("durability", _TEXT, b"replicated", "replicated, or persisted: on the disks of all in-sync replicas"),
    ("consumer_offset_durability", _TEXT, b"replicated", "kept and reported"),
    ("messages_required_to_save", _U32, bytes(4), "kept and reported"),
    ("size_of_messages_required_to_save", _U64, bytes(8), "kept and reported"),
    ("preallocate_segments", HeaderKind.BOOL, b"\0", "kept and reported"),
    (FORMAT_OPTION, _TEXT, b"", "kafka or tank: how messages are stored; tank keeps no headers"),
)
TOPIC_OPTION_NAMES: Final = frozenset(name for name, _, _, _ in _TOPIC_OPTIONS)


def ping(call: "IggyCall", payload: memoryview) -> None:
    """Shows that the broker is there, and that the client is."""
    session = call.session
    if session.settings.heartbeat:
        heartbeats_of(session.broker).pinged(session.serial)
    call.answer()


def get_cluster_metadata(call: "IggyCall", payload: memoryview) -> None:
    """Names this broker alone, at the address that the client reached: it forwards what others lead, and a
    client that sees several nodes looks for a leader among them."""
    nodes = [own_node(call.session)]
    call.answer(GetClusterMetadataResponse(_CLUSTER_NAME, nodes).encode(call.era.version))


def own_node(session: "IggySession") -> IggyNode:
    """This broker as the one node of a cluster, at the address that the client reached."""
    return IggyNode(
        name=_CLUSTER_NAME,
        ip=session.reached_at(),
        tcp_port=session.settings.port,
        role=_LEADER,
        status=_HEALTHY,
    )


def get_me(call: "IggyCall", payload: memoryview) -> None:
    """Shows the client itself, with its groups."""
    _show(call, call.session)


def get_client(call: "IggyCall", payload: memoryview) -> None:
    """Shows a client of this broker. One that is not there is an empty answer from era A3 on."""
    request = GetClientRequest.decode(payload, call.era.version)
    for session in open_sessions(call.session.broker):
        if session.client_number == request.client_id:
            _show(call, session)
            return
    if call.era.missing_is_error:
        raise refusal(IggyError.CLIENT_NOT_FOUND)
    call.answer()


def get_clients(call: "IggyCall", payload: memoryview) -> None:
    """Lists the clients of this broker."""
    clients = [
        _record(session, call.era, len(_groups(session))) for session in open_sessions(call.session.broker)
    ]
    call.answer(GetClientsResponse(clients).encode(call.era.version))


def _show(call: "IggyCall", shown: "IggySession") -> None:
    groups, base = _groups(shown), call.era.base
    records = [IggyClientGroup(stream + base, topic + base, group + base) for stream, topic, group in groups]
    details = ClientDetails(_record(shown, call.era, len(records)), records)
    call.answer(details.encode(call.era.version))


def _record(shown: "IggySession", era: Era, groups: int) -> IggyClient:
    principal = shown.principal
    if principal is None or principal is ANONYMOUS_USER:
        user = _NOBODY_OLD if era.is_old else _NOBODY
    else:
        user = principal.number + era.base
    return IggyClient(
        id=shown.client_number, user_id=user, transport=_TCP, address=shown.came_from(), groups_count=groups
    )


def _groups(shown: "IggySession") -> list[tuple[int, int, int]]:
    """Stream, topic and group of each membership, by our numbers."""
    broker = shown.broker
    view = broker.link.view
    found = []
    for born in memberships_of(broker).groups_of(shown.serial):
        group = view.iggy.group_born(born)
        topic = None if group is None else view.topic_by_id(group.topic_id)
        if group is not None and topic is not None and topic.iggy is not None:
            found.append((topic.iggy.stream, topic.iggy.number, group.number))
    return found


def get_stats(call: "IggyCall", payload: memoryview) -> None:
    """Shows figures of the whole cluster's streams, and of this broker's machine."""
    view = iggy_view(call)
    topics = [topic for stream in view.streams() for topic in view.topics(stream.number)]
    with_sizes(call, topics, partial(_figures, call, topics))


def _figures(call: "IggyCall", topics: list[TopicView], sizes: Sizes) -> None:
    session = call.session
    broker = session.broker
    view, host = iggy_view(call), session.services.host()
    version, semver = _VERSIONS.get(call.era.version, _CLASSIC_VERSION)
    response = GetStatsResponse(
        process_id=host.process_id,
        cpu=host.cpu_percent,
        total_cpu=host.total_cpu_percent,
        memory_bytes=host.memory_bytes,
        total_memory_bytes=host.total_memory_bytes,
        available_memory_bytes=host.available_memory_bytes,
        run_time_us=(broker.tick.monotonic_ms - broker.started_monotonic_ms) * _MS_US,
        start_time_us=broker.started_ms * _MS_US,
        read_bytes=session.metrics.sent_bytes,
        written_bytes=session.metrics.received_bytes,
        messages_bytes=sum(each.size_bytes for each in sizes.values()),
        streams_count=len(view.streams()),
        topics_count=len(topics),
        partitions_count=sum(len(topic.partitions) for topic in topics),
        segments_count=sum(each.segments for each in sizes.values()),
        messages_count=sum(each.messages for each in sizes.values()),
        clients_count=len(open_sessions(broker)),
        groups_count=sum(len(view.groups(topic.topic_id)) for topic in topics),
        hostname=host.hostname,
        os_name=host.os_name,
        os_version=host.os_version,
        kernel_version=host.kernel_version,
        server_version=version,
        server_semver=semver,
        threads_count=host.threads,
        free_disk_bytes=host.free_disk_bytes,
        total_disk_bytes=host.total_disk_bytes,
    )
    call.answer(response.encode(call.era.version))


def describe_options(call: "IggyCall", payload: memoryview) -> None:
    """Lists the options that a topic may have."""
    request = DescribeOptionsRequest.decode(payload, call.era.version)
    options = _TOPIC_OPTIONS if request.scope == _TOPIC_SCOPE else ()
    own_default = call.session.settings.log_format.encode()
    described = [
        DescribedOption(name, kind, own_default if name == FORMAT_OPTION else default, about)
        for name, kind, default, about in options
    ]
    call.answer(DescribeOptionsResponse(described).encode(call.era.version))
