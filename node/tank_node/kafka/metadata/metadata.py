"""Metadata (3): the brokers of the cluster, and topics with the leaders of their partitions.

A topic that does not exist may be created by the question for it (`auto_creation`).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_ids import NO_TOPIC, topic_by_uuid, topic_uuid
from tank_node.cluster.view import ClusterView, TopicView
from tank_node.kafka import authorized_operations, topic_names
from tank_node.kafka.errors import KafkaError
from tank_node.kafka.leaders import NO_BROKER
from tank_node.kafka.metadata import auto_creation, lost_leaders
from tank_node.kafka.metadata.listed_brokers import ListedBroker, controller_of, listed_brokers, named_brokers
from tank_node.kafka.metadata.metadata_answers import MetadataAsked, answers_of
from tank_node.kafka.metadata.topic_slices import TopicSlices
from tank_node.kafka.settling import KafkaPause
from tank_protos.generated.kafka import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseBrokerCollection,
    MetadataResponsePartition,
    MetadataResponseTopic,
    MetadataResponseTopicCollection,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_FIRST: Final = 0
"""The version in which no topics stand for all, and the replicas are those of listed brokers alone: its
clients look each replica up in the list of brokers."""
_BY_ID_SINCE: Final = 12
"""The first version in which topics may be asked for by id."""
_LONG_NULL: Final = bytes(4)
"""The length of "all topics" as librdkafka writes it from 2.3 on: the four bytes that it keeps free for a
length, where the one byte of a null list belongs. Kafka's brokers read the first of them as that byte, take
the others for the flags, and never look at what is left at the end."""
_LONG_NULL_BYTES: Final = {9: 8, 10: 8, 11: 7, 12: 7, 13: 7}
"""The bytes of such a request by version: four, its flags, and no tagged fields. In the right form none has
as many and begins with four zeros."""
_NONE: Final = int(KafkaError.NONE)
_NO_LEADER: Final = int(KafkaError.LEADER_NOT_AVAILABLE)


def metadata(call: "KafkaCall", body: memoryview) -> None:
    """Answers with all brokers, and with the topics that are asked for."""
    session = call.session
    body = _with_short_null(body, call.version)
    asked = MetadataAsked(call.version, session.is_outside, bytes(body))
    # Decoded now, because a malformed request ends the connection, which must not happen later.
    request = None if _kept(call, asked) else MetadataRequest.decode(asked.body, call.version)
    lost_leaders.when_noticed(call, partial(_answer, call, asked, request))


def _answer(call: "KafkaCall", asked: MetadataAsked, request: MetadataRequest | None) -> None:
    """Answers a request. None: it is as one that was answered before."""
    if not call.session.broker.lost_brokers and _send_kept(call, asked):
        return
    request = request or MetadataRequest.decode(asked.body, call.version)
    answer = MetadataAnswer(call, request, asked)
    lost_leaders.when_led(call, answer.topic_names, answer.begin)


def _kept(call: "KafkaCall", asked: MetadataAsked) -> bytes | None:
    """The answer that was kept for clients that ask alike; None: there is none."""
    broker = call.session.broker
    asked = asked._replace(lost=broker.lost_brokers.still_listed())
    return answers_of(broker).find(broker.link.view.index, asked)


def _send_kept(call: "KafkaCall", asked: MetadataAsked) -> bool:
    """Sends the answer that was kept for clients that ask alike. False: none was."""
    kept = _kept(call, asked)
    if kept is None:
        return False
    call.answer_pieces([b"", kept])
    return True


def _with_short_null(body: memoryview, version: int) -> memoryview:
    """Returns a request's body with the length of "all topics" in its one byte."""
    if len(body) == _LONG_NULL_BYTES.get(version) and body[: len(_LONG_NULL)] == _LONG_NULL:
        return body[len(_LONG_NULL) - 1 :]
    return body


class MetadataAnswer:
    """The answer to a request. It waits for topics that the request creates, and a long one is made slice by
    slice, so that other clients get their turns."""

    __slots__ = (
        "_asked", "_call", "_index", "_next", "_operations", "_request", "_response", "_slices", "_topics"
    )  # fmt: skip

    def __init__(self, call: "KafkaCall", request: MetadataRequest, asked: MetadataAsked) -> None:
        self._call = call
        self._request = request
        self._asked = asked
        self._response = MetadataResponse()
        """The answer without its topics, or with them if they are few."""
        self._slices: TopicSlices | None = None
        """The topics so far; None: the answer is not made in slices."""
        self._topics: Iterator[MetadataResponseTopic] = iter(())
        self._next: MetadataResponseTopic | None = None
        """The topics that are not in the answer yet: this one first, if there is one."""
        self._operations = authorized_operations.NOT_ASKED
        """What the client may do with each topic."""
        self._index = 0
        """The view's index when the answer was begun."""

    def begin(self) -> None:
        """Sends the answer: the one that was kept while this request waited, or one of its own, when the
        topics are there that it creates."""
        if _send_kept(self._call, self._asked):
            return
        names = self.missing_names() if self._request.allow_auto_topic_creation else []
        auto_creation.create(self._call, names, self.send)

    def topic_names(self) -> Iterator[str]:
        """The names of the topics that the answer will tell of, as far as they are there."""
        view = self._call.session.broker.link.view
        asked = self._request.topics
        if asked is None or (self._call.version == _FIRST and not asked):
            yield from [topic.name for topic in view.topics()]
            return
        for each in asked:
            topic = topic_by_uuid(view, each.topic_id) if each.topic_id != NO_TOPIC else None
            name = each.name if topic is None else topic.name
            if name is not None:
                yield name

    def missing_names(self) -> list[str]:
        """The names that are asked for and that no topic has."""
        view = self._call.session.broker.link.view
        topics = self._request.topics or ()
        asked = dict.fromkeys(each.name for each in topics if each.topic_id == NO_TOPIC)
        return [name for name in asked if name is not None and view.topic(name) is None]

    def send(self, errors: Mapping[str, KafkaError]) -> None:
        """Makes and sends the answer. errors: why topics that were to be created are not there, by name."""
        session = self._call.session
        view = session.broker.link.view
        listed = listed_brokers(session)
        self._index = view.index
        response = self._response
        self._asked = self._asked._replace(lost=session.broker.lost_brokers.still_listed())
        response.brokers = MetadataResponseBrokerCollection(
            MetadataResponseBroker(each.broker_id, each.host, each.port, each.rack)
            for each in named_brokers(session, self._asked.lost)
        )
        response.cluster_id = view.cluster_id
        response.controller_id = controller_of(session, listed)
        if self._request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = authorized_operations.on_the_cluster(session)
        if self._request.include_topic_authorized_operations:
            self._operations = authorized_operations.on_topics(session)
        self._topics = self._described(listed, errors)
        self._go_on()

    def _go_on(self) -> None:
        """Adds the next slice of topics, and sends the answer if it was the last."""
        left = self._call.session.limits.metadata_slice
        found = MetadataResponseTopicCollection()
        topic, self._next = self._next or next(self._topics, None), None
        while topic is not None:
            if left <= 0:
                self._next = topic
                self._slices = self._slices or TopicSlices(self._call.version)
                self._slices.add(found)
                KafkaPause(self._call, self._go_on).begin()
                return
            topic.topic_authorized_operations = self._operations
            found.append(topic)
            left -= 1 + len(topic.partitions)
            topic = next(self._topics, None)
        if self._slices is None:
            self._response.topics = found
            self._send([b"".join(self._response.encode(self._call.version))])
        else:
            self._slices.add(found)
            self._send(self._slices.body(self._response))

    def _send(self, body: list[bytes]) -> None:
        broker = self._call.session.broker
        if broker.link.view.index == self._index and self._may_be_shared():
            body = [b"".join(body)]
            answers_of(broker).keep(self._index, self._asked, body[0])
        self._call.answer_pieces([b"", *body])

    def _may_be_shared(self) -> bool:
        """Whether the answer is the same for every client, and needs no topic to be created."""
        request = self._request
        return not (
            request.include_cluster_authorized_operations
            or request.include_topic_authorized_operations
            or self.missing_names()
        )

    def _described(
        self, listed: Mapping[int, ListedBroker], errors: Mapping[str, KafkaError]
    ) -> Iterator[MetadataResponseTopic]:
        version, asked = self._call.version, self._request.topics
        view = self._call.session.broker.link.view
        if asked is None or (version == _FIRST and not asked):
            for topic in list(view.topics()):  # the view may change between two slices
                yield _described(view, topic, listed, version)
            return
        answered: set[str | bytes] = set()
        """What was answered: each topic comes once, however often a request of 2 MiB repeats it."""
        for each in asked:
            uuid = each.topic_id
            name = each.name if uuid == NO_TOPIC else None
            if name is None and version < _BY_ID_SINCE:
                yield MetadataResponseTopic(KafkaError.INVALID_REQUEST, each.name or "", uuid)
                continue
            found = topic_by_uuid(view, uuid) if name is None else view.topic(name)
            key = found.name if found is not None else uuid if name is None else name
            if key in answered:
                continue
            answered.add(key)
            if found is not None:
                yield _described(view, found, listed, version)
            elif name is None:
                yield MetadataResponseTopic(KafkaError.UNKNOWN_TOPIC_ID, None, uuid)
            else:
                yield MetadataResponseTopic(errors.get(name) or topic_names.absence_of(name), name)


def _described(
    view: ClusterView, topic: TopicView, listed: Mapping[int, ListedBroker], version: int
) -> MetadataResponseTopic:
    partitions = _of_listed_replicas if version == _FIRST else _partitions
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic_uuid(view.cluster_id, topic.topic_id),
        is_internal=topic_names.is_internal(topic.name),
        partitions=partitions(topic, listed),
    )


def _partitions(topic: TopicView, listed: Mapping[int, ListedBroker]) -> list[MetadataResponsePartition]:
    described = []
    for placed in topic.partitions:
        leader = placed.leader
        has_leader = leader in listed
        described.append(
            MetadataResponsePartition(
                _NONE if has_leader else _NO_LEADER,
                placed.partition,
                leader if has_leader else NO_BROKER,
                placed.leader_epoch,
                list(placed.replicas),
                list(placed.in_sync),
                [each for each in placed.replicas if each not in listed],
            )
        )
    return described


def _of_listed_replicas(
    topic: TopicView, listed: Mapping[int, ListedBroker]
) -> list[MetadataResponsePartition]:
    """The partitions as version 0 has them: REPLICA_NOT_AVAILABLE says that some replicas are left out."""
    described = _partitions(topic, listed)
    for partition in described:
        if partition.offline_replicas:
            partition.replica_nodes = [each for each in partition.replica_nodes if each in listed]
            partition.isr_nodes = [each for each in partition.isr_nodes if each in listed]
            if partition.error_code == _NONE:
                partition.error_code = KafkaError.REPLICA_NOT_AVAILABLE
    return described
