"""Where clients of clustered brokers are to read (14, 103, 123): here, because every broker reads for all.

Clients ask when they see several nodes, and this broker names itself alone; who asks all the same is served.
"""

from typing import TYPE_CHECKING

from tank_node.iggy.consumers import consumer_of, wanted_partition
from tank_node.iggy.numbers import partition_of, topic_of
from tank_node.iggy.system import own_node
from tank_node.users.rights import IggyAction
from tank_protos.generated.iggy import (
    AttachConsumerSessionRequest,
    ConsumerRoute,
    GetConsumerOffsetRequest,
    Identifier,
    IggyConsumer,
    PollMessagesRequest,
)

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall


def get_poll_route(call: "IggyCall", payload: memoryview) -> None:
    """Names the node to send a poll to, whose request this one has."""
    request = PollMessagesRequest.decode(payload, call.era.version)
    _check(call, request.stream, request.topic, request.consumer, request.has_partition, request.partition)
    _answer(call)


def get_offset_route(call: "IggyCall", payload: memoryview) -> None:
    """Names the node to ask for a consumer's offset; the request is that of the question."""
    request = GetConsumerOffsetRequest.decode(payload, call.era.version)
    _check(call, request.stream, request.topic, request.consumer, request.has_partition, request.partition)
    _answer(call)


def attach_consumer_session(call: "IggyCall", payload: memoryview) -> None:
    """Takes note of nothing: a connection reads what it asks for by its own login, and its memberships of
    groups are its own."""
    AttachConsumerSessionRequest.decode(payload, call.era.version)
    call.answer()


def _check(
    call: "IggyCall",
    stream: Identifier,
    wire_topic: Identifier,
    consumer: IggyConsumer,
    has_partition: int,
    partition: int,
) -> None:
    """Raises IggyRefusal for what the client could not read here either."""
    _, topic = topic_of(call, stream, wire_topic, IggyAction.POLL)
    consumer_of(call, consumer, topic)
    wanted = wanted_partition(call, has_partition, partition)
    if wanted is not None:
        partition_of(call, topic, wanted)


def _answer(call: "IggyCall") -> None:
    request = call.request
    assert request is not None, "the command is of framed eras"
    route = ConsumerRoute(
        client=request.client, session=call.session.session_number, node=own_node(call.session)
    )
    call.answer(route.encode(call.era.version))
