"""TANK's own messages about topics and brokers (6, 7, 8, 10, 11, 12)."""

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import BrokerView
from tank_node.partition.refusal import Refusal
from tank_node.tank import redirect
from tank_node.tank.end_waits import when_end_known
from tank_node.tank.ends import UNKNOWN
from tank_node.tank.errors import outcome_of
from tank_protos import topic_settings
from tank_protos.error_codes import CreateTopicError, ErrorCode, ReloadConfError
from tank_protos.generated.tank import (
    CreateTopicRequest,
    CreateTopicResponse,
    DiscoveredPartition,
    DiscoveredTopic,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    DiscoverTopicsRequest,
    DiscoverTopicsResponse,
    DiscoverTopologyRequest,
    DiscoverTopologyResponse,
    ReloadConfRequest,
    ReloadConfResponse,
    StatusRequest,
    StatusResponse,
    TopologyNode,
)
from tank_protos.topic_settings import SettingError

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

logger = logging.getLogger(__name__)

_NAMED_KEYS = 10
"""How many unknown settings of a request the log names at most."""
VERSION = 1000
"""Our version in the status answer: brokers from this version on know the messages from 64 on."""
STANDALONE = 0xFFFF
"""The count of brokers in the answer of a broker that stands alone."""
_HAS_ADDRESS, _AVAILABLE, _BLOCKED = 1, 2, 4
"""Bits of a node of the topology."""
_U16_MAX = 0xFFFF
_NOT_OPENED = 0xFB
_NO_LEADER = 0xFD


def discover_partitions(session: "TankSession", payload: memoryview) -> None:
    """Answers with the first and last numbers of partitions. A partition that doesn't exist, which makes the
    C++ broker abort, is shown as not opened."""
    request = DiscoverPartitionsRequest.decode(payload)
    topic = session.broker.topics.get(request.topic)
    partitions = topic.partitions if topic is not None else {}
    asked = request.partitions or partitions
    when_end_known(session, map(partitions.get, asked), partial(_discovered, session, request))


def _discovered(session: "TankSession", request: DiscoverPartitionsRequest) -> None:
    topic = session.broker.topics.get(request.topic)
    found = []
    if topic is not None:
        for number in request.partitions or range(len(topic.view.partitions)):
            partition = topic.partitions.get(number)
            if partition is not None and partition.end_known and not partition.unreadable:
                found.append(DiscoveredPartition(partition.log.first_available, partition.high_water_mark))
            else:
                reason = topic.absence(number) if partition is None else partition.refusal
                found.append(_undiscovered(session, request.topic, number, reason))
    answer = DiscoverPartitionsResponse(request_id=request.request_id, topic=request.topic, partitions=found)
    session.answer(answer)


def _undiscovered(session: "TankSession", topic: str, number: int, reason: Refusal) -> DiscoveredPartition:
    """The entry of a partition whose end this broker doesn't know. Refusal.NONE: its leader is new, and
    doesn't know the end yet."""
    if reason is Refusal.OTHER_LEADER:
        address = redirect.address_of(session, topic, number)
        if address is not None:
            return DiscoveredPartition(UNKNOWN, UNKNOWN, ErrorCode.OTHER_LEADER, *address)
    no_leader = reason in (Refusal.OTHER_LEADER, Refusal.NO_LEADER, Refusal.NONE)
    return DiscoveredPartition(UNKNOWN, UNKNOWN, _NO_LEADER if no_leader else _NOT_OPENED)


_CREATE_ERRORS = {
    ErrorCode.NONE: CreateTopicError.NONE,
    ErrorCode.TOPIC_EXISTS: CreateTopicError.EXISTS,
    ErrorCode.INVALID_SETTING: CreateTopicError.BAD_CONFIG,
    ErrorCode.INVALID_NAME: CreateTopicError.INVALID_REQUEST,
    ErrorCode.INVALID_PARTITIONS: CreateTopicError.INVALID_REQUEST,
    ErrorCode.INVALID_REPLICATION_FACTOR: CreateTopicError.INVALID_REQUEST,
    ErrorCode.READ_ONLY: CreateTopicError.READ_ONLY,
}


def create_topic(session: "TankSession", payload: memoryview) -> None:
    """Creates a topic from TANK's message. Unknown settings in its config text are skipped, as in TANK, and
    counted and logged."""
    request = CreateTopicRequest.decode(payload)
    session.in_flight += 1

    def done(outcome: TopicOutcome) -> None:
        session.in_flight -= 1
        error = _CREATE_ERRORS.get(outcome.error, CreateTopicError.SYSTEM)
        answer = CreateTopicResponse(request_id=request.request_id, topic=request.topic, error=error)
        session.answer(answer, outcome_of(outcome.error))

    try:
        pairs = topic_settings.parse_text(bytes(request.config))
        settings, unknown = topic_settings.from_tank(pairs)
        if unknown:
            session.metrics.refused["unknown_setting"] += len(unknown)
            keys = ", ".join(ascii(key[:60]) for key in unknown[:_NAMED_KEYS])
            logger.warning("topic %r: the client's unknown settings were skipped: %s", request.topic, keys)
    except SettingError as error:
        done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))
        return
    topic = NewTopic(request.topic, request.partitions, settings=settings)
    session.broker.link.requests.create_topic(topic, done)


def reload_conf(session: "TankSession", payload: memoryview) -> None:
    """Answers that there is no file to read again: settings are in the cluster's metadata, not in files
    beside the partitions."""
    request = ReloadConfRequest.decode(payload)
    topic = session.broker.topics.get(request.topic)
    error = ReloadConfError.NO_FILE
    if topic is None:
        error = ReloadConfError.UNKNOWN_TOPIC
    elif request.partition >= len(topic.view.partitions):
        error = ReloadConfError.UNKNOWN_PARTITION
    answer = ReloadConfResponse(request.request_id, request.topic, request.partition, error)
    session.answer(answer, error.name.lower())


def status(session: "TankSession", payload: memoryview) -> None:
    """Answers with the broker's state and version, by which a client learns that it may use our own
    messages."""
    request = StatusRequest.decode(payload)
    broker = session.broker
    answer = StatusResponse(
        request_id=request.request_id,
        topics=len(broker.topics),
        partitions=sum(len(topic.view.partitions) for topic in broker.topics.values()),
        open_partitions=sum(len(topic.partitions) for topic in broker.topics.values()),
        opening_ms=broker.opening_ms,
        start_time_s=broker.started_ms // 1000,
        version=VERSION,
    )
    if broker.roles.pushers.are_needed:
        view = broker.link.view
        answer.cluster_aware, answer.cluster_name = 1, view.cluster_id
        answer.live_nodes = sum(not each.fenced for each in view.brokers.values())
    session.answer(answer)


def discover_topics(session: "TankSession", payload: memoryview) -> None:
    """Answers with all topics, by name; in a cluster with their replication factors."""
    request = DiscoverTopicsRequest.decode(payload)
    topics = [
        DiscoveredTopic(name, 1, len(topic.view.partitions), topic.view.replication_factor)
        for name, topic in sorted(session.broker.topics.items())
    ]
    clustered = int(session.broker.roles.pushers.are_needed)
    answer = DiscoverTopicsResponse(request.request_id, len(topics), clustered, topics)
    session.answer(answer)


def discover_topology(session: "TankSession", payload: memoryview) -> None:
    """Answers with the brokers of the cluster; a broker that stands alone has no topology."""
    request = DiscoverTopologyRequest.decode(payload)
    answer = DiscoverTopologyResponse(request_id=request.request_id, node_count=STANDALONE)
    broker = session.broker
    if broker.roles.pushers.are_needed:
        view = broker.link.view
        held: Counter[int] = Counter()
        for topic in view.topics():
            for placed in topic.partitions:
                held.update(placed.replicas)
        answer.cluster_name = view.cluster_id
        answer.nodes = [_node(session, one, held[one.broker_id]) for _, one in sorted(view.brokers.items())]
        answer.node_count = len(answer.nodes)
    session.answer(answer)


def _node(session: "TankSession", broker: BrokerView, partitions: int) -> TopologyNode:
    bits = _BLOCKED if broker.fenced else _AVAILABLE
    address = redirect.ipv4_of(*broker.address(outside=session.is_outside))
    partitions = min(partitions, _U16_MAX)
    if address is None:
        return TopologyNode(broker.broker_id, bits, partitions=partitions)
    return TopologyNode(broker.broker_id, bits | _HAS_ADDRESS, *address, partitions)
