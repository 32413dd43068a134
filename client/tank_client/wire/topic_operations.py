"""Topics, ends and times as operations, for each kind of broker; pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tank_client import errors
from tank_client.model import (
    END,
    NO_BROKER,
    Address,
    BrokerDescription,
    Ends,
    Features,
    FoundTime,
    PartitionDescription,
    Route,
    Setting,
    SettingValue,
    TopicDescription,
)
from tank_client.wire.operations import (
    ClientOperation,
    Redirected,
    address_of,
    error_of,
    need,
    need_newer_than_old_document,
)
from tank_protos.error_codes import CreateTopicError, ErrorCode
from tank_protos.generated.tank import (
    AlteredSetting,
    AlterTopicRequest,
    AlterTopicResponse,
    AwaitEndsRequest,
    AwaitEndsResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribedTopic,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    DiscoverTopicsRequest,
    DiscoverTopicsResponse,
    FindByTimeRequest,
    FindByTimeResponse,
    KnownEnd,
    TimeToFind,
    TopicSetting,
)

K = TypeVar("K")
V = TypeVar("V")

_NOT_KNOWN_HERE = 2**64 - 1


def describe_topics(
    names: Iterable[str], heard: Callable[[list[BrokerDescription]], None] | None = None
) -> ClientOperation[tuple[list[BrokerDescription], list[TopicDescription]]]:
    """Describes brokers and topics, by name; Tank Cluster only. Raises UnknownTopic for a name of no topic.
    heard: called with the brokers, which an answer names for unknown topics, too.
    """
    wanted = list(names)

    def build(server: Features) -> DescribeTopicsRequest:
        return DescribeTopicsRequest(names=wanted)

    def read(
        answer: DescribeTopicsResponse, server: Features
    ) -> tuple[list[BrokerDescription], list[TopicDescription]]:
        brokers = [BrokerDescription(b.broker_id, Address(b.host, b.port), b.rack) for b in answer.brokers]
        if heard is not None:
            heard(brokers)
        return brokers, [_topic(topic) for topic in answer.topics]

    return ClientOperation("describe topics", build, lambda server: DescribeTopicsResponse, read)


def _topic(topic: DescribedTopic) -> TopicDescription:
    error = error_of(topic.error, topic.name, -1)
    if error is not None:
        raise error
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=topic.replication_factor,
        settings=tuple(Setting(s.key, s.value, bool(s.is_default)) for s in topic.settings),
        partitions=tuple(
            PartitionDescription(
                partition=p.partition,
                leader=None if p.leader == NO_BROKER else p.leader,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replicas),
                in_sync=tuple(p.in_sync),
                first_available=None if p.first_available == _NOT_KNOWN_HERE else p.first_available,
                high_water_mark=None if p.high_water_mark == _NOT_KNOWN_HERE else p.high_water_mark,
                size_bytes=None if p.size_bytes == _NOT_KNOWN_HERE else p.size_bytes,
            )
            for p in topic.partitions
        ),
    )


def discover_topics() -> ClientOperation[dict[str, tuple[int, int]]]:
    """{topic: (partitions, replication factor)} from any broker that knows id 11. A stand-alone broker gives
    factor 1.
    """

    def build(server: Features) -> DiscoverTopicsRequest:
        need_newer_than_old_document(server, "listing topics", "name the topic and its partitions yourself")
        return DiscoverTopicsRequest()

    def read(answer: DiscoverTopicsResponse, server: Features) -> dict[str, tuple[int, int]]:
        factor = bool(answer.cluster_aware)
        return {t.name: (t.partitions, t.replication_factor if factor else 1) for t in answer.topics}

    return ClientOperation("list topics", build, lambda server: DiscoverTopicsResponse, read)


def create_topic(
    name: str,
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, SettingValue],
    *,
    validate_only: bool,
) -> ClientOperation[int]:
    """The new topic's id."""

    def build(server: Features) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            settings=[TopicSetting(key=key, value=_text_of(value)) for key, value in settings.items()],
            validate_only=int(validate_only),
        )

    def read(answer: CreateTopicsResponse, server: Features) -> int:
        _raise(answer.error, name, answer.message)
        return answer.topic_id

    return ClientOperation(
        f"create topic {name}", build, lambda server: CreateTopicsResponse, read, repeatable=False
    )


def create_topic_plainly(
    name: str, partitions: int, settings: Mapping[str, SettingValue]
) -> ClientOperation[int]:
    """TANK's own CreateTopic (id 7), for brokers without Tank Cluster's messages; the returned id is 0."""

    def build(server: Features) -> CreateTopicRequest:
        need_newer_than_old_document(
            server, "creating topics", "make the topic's folder on the broker's disk"
        )
        text = "".join(f"{key}={_text_of(value)}\n" for key, value in settings.items())
        return CreateTopicRequest(topic=name, partitions=partitions, config=memoryview(text.encode()))

    def read(answer: CreateTopicResponse, server: Features) -> int:
        code = answer.error
        if code == CreateTopicError.EXISTS:
            raise errors.TopicExists(name)
        if code == CreateTopicError.READ_ONLY:
            raise errors.ReadOnly("the broker takes no writes")
        if code == CreateTopicError.BAD_CONFIG:
            raise errors.RequestRefused(f"topic {name!r}: the broker does not understand a setting")
        if code == CreateTopicError.SYSTEM:
            raise errors.StorageFailure(f"topic {name!r}: the broker could not make it; look at its log")
        if code:
            raise errors.RequestRefused(
                f"topic {name!r}: a name has 1 to 249 of A-Z a-z 0-9 . _ - (1 to 64, and no dot, while "
                "brokers of an older version are there), and a topic has 1 to 65530 partitions"
            )
        return 0

    return ClientOperation(
        f"create topic {name}", build, lambda server: CreateTopicResponse, read, repeatable=False
    )


def _text_of(value: SettingValue) -> str:
    """The text of a setting's value in a request."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def alter_topic(
    name: str, partitions: int, settings: Mapping[str, SettingValue | None], *, validate_only: bool
) -> ClientOperation[None]:
    """Changes settings or adds partitions."""

    def build(server: Features) -> AlterTopicRequest:
        need(server, "alter_topic", "altering topics")
        return AlterTopicRequest(
            name=name,
            partitions=partitions,
            settings=[
                AlteredSetting(key=key, value=None if value is None else _text_of(value))
                for key, value in settings.items()
            ],
            validate_only=int(validate_only),
        )

    def read(answer: AlterTopicResponse, server: Features) -> None:
        _raise(answer.error, name, answer.message)

    return ClientOperation(f"alter topic {name}", build, lambda server: AlterTopicResponse, read)


def delete_topic(name: str) -> ClientOperation[None]:
    """Deletes a topic and its data."""

    def build(server: Features) -> DeleteTopicRequest:
        need(server, "delete_topic", "deleting topics")
        return DeleteTopicRequest(name=name)

    def read(answer: DeleteTopicResponse, server: Features) -> None:
        _raise(answer.error, name, answer.message)

    return ClientOperation(
        f"delete topic {name}", build, lambda server: DeleteTopicResponse, read, repeatable=False
    )


def find_by_time(
    topic: str, times: Mapping[int, int]
) -> ClientOperation[dict[int, FoundTime | errors.TankError]]:
    """{partition: the place of its time, or the error}, from the broker that leads the first partition."""
    partitions = list(times)

    def build(server: Features) -> FindByTimeRequest:
        need(
            server, "find_by_time", "finding messages by time", "begin at 'first' and skip by the timestamps"
        )
        return FindByTimeRequest(
            topic=topic,
            partitions=[TimeToFind(partition=p, timestamp_ms=ms) for p, ms in times.items()],
        )

    def read(answer: FindByTimeResponse, server: Features) -> dict[int, FoundTime | errors.TankError]:
        _raise(answer.error, topic, answer.message)
        if [entry.partition for entry in answer.partitions] != partitions:
            raise errors.ProtocolViolation("a find-by-time answer with other partitions than the request")
        return _alone_raises(
            {
                entry.partition: error_of(entry.error, topic, entry.partition)
                or FoundTime(entry.sequence_number, entry.timestamp_ms)
                for entry in answer.partitions
            }
        )

    route = (topic, partitions[0])
    return ClientOperation(
        f"find a time in {topic}", build, lambda server: FindByTimeResponse, read, route=route
    )


def await_ends(
    known: Mapping[Route, int | None], max_wait_ms: int
) -> ClientOperation[dict[Route, Ends | errors.TankError]]:
    """{(topic, partition): its ends, or the error}."""
    routes = list(known)

    def build(server: Features) -> AwaitEndsRequest:
        return AwaitEndsRequest(
            max_wait_ms=max_wait_ms,
            partitions=[
                KnownEnd(topic=t, partition=p, high_water_mark=END if mark is None else mark)
                for (t, p), mark in known.items()
            ],
        )

    def read(answer: AwaitEndsResponse, server: Features) -> dict[Route, Ends | errors.TankError]:
        if len(answer.partitions) != len(routes):
            raise errors.ProtocolViolation(
                "an answer about ends with another number of entries than the request"
            )
        return _alone_raises(
            {
                route: error_of(entry.error, *route) or Ends(entry.first_available, entry.high_water_mark)
                for route, entry in zip(routes, answer.partitions, strict=True)
            }
        )

    return ClientOperation(
        "wait for new messages",
        build,
        lambda server: AwaitEndsResponse,
        read,
        route=routes[0],
        wait_ms=max_wait_ms,
    )


def discover_partitions(
    topic: str, only: int | None = None
) -> ClientOperation[dict[int, Ends | errors.TankError]]:
    """{partition: its ends, or the error} (id 6), of the whole topic, or of one partition that is known to
    exist: the C++ broker crashes on a partition that doesn't exist.
    """

    def build(server: Features) -> DiscoverPartitionsRequest:
        need_newer_than_old_document(server, "giving a topic's ends")
        return DiscoverPartitionsRequest(topic=topic, partitions=[] if only is None else [only])

    def read(answer: DiscoverPartitionsResponse, server: Features) -> dict[int, Ends | errors.TankError]:
        if not answer.partitions:
            raise errors.UnknownTopic(topic)
        ends: dict[int, Ends | errors.TankError] = {}
        for partition, entry in enumerate(answer.partitions, 0 if only is None else only):
            if entry.first_available != END or entry.high_water_mark != END:
                ends[partition] = Ends(entry.first_available, entry.high_water_mark)
            elif entry.reason == ErrorCode.OTHER_LEADER:
                ends[partition] = Redirected(address_of(entry.leader_ipv4, entry.leader_port))
            else:
                ends[partition] = errors.NoLeader(f"{topic}/{partition} has no leader now")
        return ends if only is None else _alone_raises(ends)

    name = f"ends of {topic}" if only is None else f"ends of {topic}/{only}"
    return ClientOperation(
        name, build, lambda server: DiscoverPartitionsResponse, read, route=(topic, only or 0)
    )


def _alone_raises(answers: dict[K, V | errors.TankError]) -> dict[K, V | errors.TankError]:
    """Raises the error of a single answer, so that the call is repeated and redirected like any other."""
    if len(answers) == 1:
        for answer in answers.values():
            if isinstance(answer, errors.TankError):
                raise answer
    return answers


def _raise(code: int, topic: str, message: str) -> None:
    error = error_of(code, topic, -1, message)
    if error is not None:
        raise error
