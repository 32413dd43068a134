"""The way of an Iggy client's request about one stored offset to the leader of the partition, which may be
this broker."""

from collections.abc import Callable
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.peers.group_errors import error_code
from tank_node.peers.group_router import GroupRouter, router_of
from tank_node.peers.iggy.iggy_positions import SOON, IggyPositions, positions_of
from tank_node.peers.iggy.iggy_service import DELETE, GET, STORE
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated.tank import IggyOffsetRequest, IggyOffsetResponse
from tank_protos.wire.message import Message

_LONGEST_NAME = 255
"""The most bytes of a consumer's name in our own messages."""


class IggyOffsets:
    """What the sessions of one broker ask. Offsets are Iggy's: the first message of a partition has 0, and
    what is stored is the offset of the last message that was consumed. Below feature level 5 other brokers
    don't know these requests."""

    def __init__(self, broker: Broker, router: GroupRouter, positions: IggyPositions) -> None:
        self._broker = broker
        self._router = router
        self._positions = positions

    def get(self, place: IggyPlace, sender: Session, done: Callable[[ErrorCode, int | None], None]) -> None:
        """The stored offset; None: nothing is stored."""
        leader = self._leader(place)
        if isinstance(leader, ErrorCode):
            done(leader, None)
        elif leader == self._broker.link.view.broker_id:
            self._positions.get(place, done)
        else:
            self._ask(leader, place, GET, 0, sender, done)

    def store(
        self,
        place: IggyPlace,
        offset: int,
        sender: Session,
        done: Callable[[ErrorCode], None],
        *,
        is_auto: bool = False,
    ) -> None:
        """Stores an offset; answered when it is safe, or with is_auto when the leader goes by it."""
        leader = self._leader(place)
        if isinstance(leader, ErrorCode):
            done(leader)
        elif leader == self._broker.link.view.broker_id:
            self._positions.store(place, offset, done, is_auto=is_auto)
        else:
            self._ask(leader, place, SOON if is_auto else STORE, offset, sender, partial(_alone, done))

    def delete(self, place: IggyPlace, sender: Session, done: Callable[[ErrorCode], None]) -> None:
        """Forgets a stored offset."""
        leader = self._leader(place)
        if isinstance(leader, ErrorCode):
            done(leader)
        elif leader == self._broker.link.view.broker_id:
            self._positions.delete(place, done)
        else:
            self._ask(leader, place, DELETE, 0, sender, partial(_alone, done))

    def _leader(self, place: IggyPlace) -> int | ErrorCode:
        view = self._broker.link.view
        if view.feature_level < IGGY:
            return ErrorCode.LEVEL_TOO_LOW
        topic = view.topic_by_id(place.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC
        if not 0 <= place.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_PARTITION
        if len(place.consumer.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
            return ErrorCode.INVALID_NAME
        leader = topic.partitions[place.partition].leader
        return ErrorCode.NO_LEADER if leader == NO_LEADER else leader

    def _ask(
        self,
        leader: int,
        place: IggyPlace,
        kind: int,
        offset: int,
        sender: Session,
        done: Callable[[ErrorCode, int | None], None],
    ) -> None:
        request = IggyOffsetRequest(place.consumer, place.topic_id, place.partition, kind, offset)
        self._router.ask_broker(leader, request, sender, partial(_told, done))


def _told(done: Callable[[ErrorCode, int | None], None], answer: Message | GroupError) -> None:
    if isinstance(answer, IggyOffsetResponse):
        done(ErrorCode(answer.error), None if answer.offset < 0 else answer.offset)
    else:
        error = answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE
        done(error_code(error), None)


def _alone(done: Callable[[ErrorCode], None], error: ErrorCode, offset: int | None) -> None:
    done(error)


def offsets_of(broker: Broker) -> IggyOffsets:
    """Returns the way to stored offsets of one broker's sessions; makes it at the first call."""
    offsets = broker.iggy_peers.get(IggyOffsets)
    if not isinstance(offsets, IggyOffsets):
        made = IggyOffsets(broker, router_of(broker), positions_of(broker))
        offsets = broker.iggy_peers[IggyOffsets] = made
    return offsets
