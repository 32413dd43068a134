"""The streams, topics and groups that requests name, by number or by name, and what their users may do with
them. The wire's numbers are ours, and the era's base more."""

from typing import TYPE_CHECKING, NoReturn

from tank_node.cluster.iggy.parts import IggyGroupView, IggyTopicView, StreamView
from tank_node.cluster.iggy.view import IggyView
from tank_node.cluster.view import TopicView
from tank_node.iggy.refusals import refusal
from tank_node.users.rights import IggyAction
from tank_protos.generated.iggy import Identifier
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import named

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall


def iggy_view(call: "IggyCall") -> IggyView[TopicView]:
    """What this broker knows of streams and groups."""
    return call.session.broker.link.view.iggy


def iggy_part(topic: TopicView) -> IggyTopicView:
    """The part of a topic that Iggy's clients see. The topic was found by it."""
    assert topic.iggy is not None
    return topic.iggy


def check(call: "IggyCall", action: IggyAction, stream_born: int = 0, topic_born: int = 0) -> None:
    """Raises IggyRefusal when the client may not do this."""
    if not may(call, action, stream_born, topic_born):
        raise refusal(IggyError.UNAUTHORIZED)


def may(call: "IggyCall", action: IggyAction, stream_born: int = 0, topic_born: int = 0) -> bool:
    """Whether the client may do this."""
    session = call.session
    assert session.principal is not None
    return session.access.authorizer.allows(session.principal, action, stream_born, topic_born)


def stream_of(call: "IggyCall", wire: Identifier, action: IggyAction) -> StreamView:
    """The stream that a request names. Raises IggyRefusal: there is none, or the client may not do this with
    it. Whoever may do it with some streams only is not told which others there are."""
    wanted = named(wire, call.era)
    view = iggy_view(call)
    stream = view.stream(wanted) if isinstance(wanted, int) else view.stream_by_name(wanted)
    if stream is None:
        is_number = isinstance(wanted, int)
        _missing(
            call, action, IggyError.STREAM_ID_NOT_FOUND if is_number else IggyError.STREAM_NAME_NOT_FOUND
        )
    check(call, action, stream.born)
    return stream


def topic_of(
    call: "IggyCall", stream_wire: Identifier, topic_wire: Identifier, action: IggyAction
) -> tuple[StreamView, TopicView]:
    """The topic that a request names, and its stream. Raises IggyRefusal likewise."""
    wanted = named(stream_wire, call.era)
    view = iggy_view(call)
    is_number = isinstance(wanted, int)
    stream = view.stream(wanted) if isinstance(wanted, int) else view.stream_by_name(wanted)
    if stream is None:
        _missing(
            call, action, IggyError.STREAM_ID_NOT_FOUND if is_number else IggyError.STREAM_NAME_NOT_FOUND
        )
    wanted = named(topic_wire, call.era)
    is_number = isinstance(wanted, int)
    if isinstance(wanted, int):
        topic = view.topic(stream.number, wanted)
    else:
        topic = view.topic_by_name(stream.number, wanted)
    if topic is None:
        check(call, action, stream.born)
        raise refusal(IggyError.TOPIC_ID_NOT_FOUND if is_number else IggyError.TOPIC_NAME_NOT_FOUND)
    check(call, action, stream.born, iggy_part(topic).born)
    return stream, topic


def group_of(call: "IggyCall", topic: TopicView, wire: Identifier) -> IggyGroupView:
    """The group of a topic that a request names. Raises IggyRefusal when there is none."""
    found = find_group(call, topic, wire)
    if found is None:
        raise refusal(IggyError.CONSUMER_GROUP_ID_NOT_FOUND)
    return found


def find_group(call: "IggyCall", topic: TopicView, wire: Identifier) -> IggyGroupView | None:
    """As `group_of`; None: there is none."""
    wanted = named(wire, call.era)
    view = iggy_view(call)
    if isinstance(wanted, int):
        return view.group(topic.topic_id, wanted)
    return view.group_by_name(topic.topic_id, wanted)


def partition_of(call: "IggyCall", topic: TopicView, wire: int) -> int:
    """Our number of the partition that a request names. Raises IggyRefusal when there is no such one."""
    number = wire - call.era.base
    if not topic.partitions:
        raise refusal(IggyError.NO_PARTITIONS)
    if not 0 <= number < len(topic.partitions):
        raise refusal(IggyError.PARTITION_NOT_FOUND)
    return number


def _missing(call: "IggyCall", action: IggyAction, error: IggyError) -> NoReturn:
    check(call, action)
    raise refusal(error)
