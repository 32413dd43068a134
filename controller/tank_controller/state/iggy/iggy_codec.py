"""Streams, Iggy's parts of topics, and groups as messages of snapshots and deltas. Pure."""

from collections.abc import Iterable
from typing import TypeAlias

from tank_controller.state.iggy.iggy_group import IggyGroup
from tank_controller.state.iggy.iggy_option import IggyOption
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.maker import Maker
from tank_controller.state.iggy.stream_state import StreamState
from tank_protos.generated import control_pb2 as pb

_Made: TypeAlias = (
    pb.IggyStream | pb.IggyPart | pb.IggyGroup | pb.CreateStream | pb.CreateIggyTopic | pb.CreateIggyGroup
)


def stream_message(stream: StreamState) -> pb.IggyStream:
    """A stream as snapshots and deltas hold it."""
    return pb.IggyStream(
        number=stream.number,
        name=stream.name,
        created_ms=stream.created_ms,
        born=stream.born,
        going=stream.going,
        maker=maker_message(stream.maker),
    )


def stream_state(message: pb.IggyStream) -> StreamState:
    """The stream of a message."""
    return StreamState(
        message.number, message.name, message.created_ms, message.born, message.going, maker_of(message)
    )


def part_message(part: IggyPart) -> pb.IggyPart:
    """Iggy's part of a topic as snapshots and deltas hold it."""
    values = pb.IggyValues(
        expiry_us=part.expiry_us,
        max_bytes=part.max_bytes,
        per_partition=part.per_partition,
        compression=part.compression,
        options=[pb.IggyOption(key=each.key, kind=each.kind, value=each.value) for each in part.options],
    )
    return pb.IggyPart(
        stream=part.stream,
        number=part.number,
        name=part.name,
        values=values,
        created_ms=part.created_ms,
        born=part.born,
        exposed=part.exposed,
        purged=part.purged,
        maker=maker_message(part.maker),
    )


def part_state(message: pb.IggyPart) -> IggyPart:
    """Iggy's part of a message."""
    values = message.values
    return IggyPart(
        message.stream,
        message.number,
        message.name,
        values.expiry_us,
        values.max_bytes,
        values.compression,
        options(values.options),
        values.per_partition,
        message.exposed,
        message.created_ms,
        message.born,
        tuple(message.purged),
        maker_of(message),
    )


def options(messages: Iterable[pb.IggyOption]) -> tuple[IggyOption, ...]:
    """The options of messages, in their order."""
    return tuple(IggyOption(each.key, each.kind, each.value) for each in messages)


def group_message(group: IggyGroup) -> pb.IggyGroup:
    """A group as snapshots and deltas hold it."""
    return pb.IggyGroup(
        topic_id=group.topic_id,
        number=group.number,
        name=group.name,
        born=group.born,
        maker=maker_message(group.maker),
    )


def group_state(message: pb.IggyGroup) -> IggyGroup:
    """The group of a message."""
    return IggyGroup(message.number, message.name, message.topic_id, message.born, maker_of(message))


def maker_message(maker: Maker | None) -> pb.Maker | None:
    """A maker as messages hold it."""
    return None if maker is None else pb.Maker(broker_epoch=maker.broker_epoch, request=maker.request)


def maker_of(message: _Made) -> Maker | None:
    """The maker in a message."""
    maker = message.maker
    return Maker(maker.broker_epoch, maker.request) if message.HasField("maker") else None
