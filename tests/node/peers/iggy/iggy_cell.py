"""Three brokers with one of Iggy's groups, and what their sessions ask."""

from pathlib import Path

from tank_node.coordinators.iggy.consumer_ids import group_consumer
from tank_node.coordinators.machine.iggy_requests import IggyMemberName
from tank_node.limits import Limits
from tank_node.peers.iggy.iggy_memberships import IggyMemberships, memberships_of
from tank_node.peers.iggy.iggy_offsets import offsets_of
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tests.node.peers.group_cell import TOPIC, cell_of
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, CellNode, Told

BORN = 5
GROUP = group_consumer(BORN)
MESSAGES = 10


def iggy_cell_of(folder: Path, limits: Limits | None = None) -> BrokerCell:
    """Broker 1 coordinates all groups; partition 0 of the topic is led by 1, 1 by 2, 2 by 3, 3 by 1, and each
    has ten messages."""
    cell = cell_of(folder, limits)
    group = pb.IggyGroup(topic_id=cell.topics[TOPIC].topic_id, number=0, name="readers", born=BORN)
    for node in cell.nodes.values():
        node.controller.view.feature_level = IGGY
        node.controller.view.iggy.apply(pb.Delta(iggy_groups=[group]))
    for number, leader in ((1, 2), (2, 3)):
        cell.change(number, TOPIC, leader=leader)
    cell.run(300)
    for number, leader in enumerate((1, 2, 3, 1)):
        node = cell.nodes[leader]
        node.broker.begin_tick()
        for _ in range(MESSAGES):
            node.partition(TOPIC, number).append(memoryview(batch_of(b"x")), Told(), number)
        node.broker.end_tick()
    cell.run(500)
    for number, leader in enumerate((1, 2, 3, 1)):
        assert cell.nodes[leader].partition(TOPIC, number).high_water_mark == MESSAGES
    return cell


def members_at(cell: BrokerCell, broker_id: int) -> IggyMemberships:
    return memberships_of(cell.nodes[broker_id].broker)


def begin_join(
    cell: BrokerCell, broker_id: int, connection: int, *, is_sticky: bool = True, born: int = BORN
) -> list[ErrorCode]:
    """What a connection's join was answered, when it is."""
    told: list[ErrorCode] = []
    broker = cell.nodes[broker_id].broker
    broker.begin_tick()
    name = IggyMemberName(connection, 100 + connection, is_sticky)
    memberships_of(broker).join(born, name, told.append)
    broker.end_tick()
    return told


def join(cell: BrokerCell, broker_id: int, connection: int, *, is_sticky: bool = True) -> None:
    told = begin_join(cell, broker_id, connection, is_sticky=is_sticky)
    cell.run(1_000)
    assert told == [ErrorCode.NONE]


def may_poll(cell: BrokerCell, broker_id: int, connection: int) -> tuple[int, ...] | ErrorCode:
    found = members_at(cell, broker_id).assignment(BORN, connection)
    return found if isinstance(found, ErrorCode) else found.partitions


def place(cell: BrokerCell, number: int, consumer: str = GROUP) -> IggyPlace:
    return IggyPlace(consumer, cell.topics[TOPIC].topic_id, number)


def begin_store(
    cell: BrokerCell, broker_id: int, at: IggyPlace, offset: int, *, is_auto: bool = False
) -> list[ErrorCode]:
    told: list[ErrorCode] = []
    broker = cell.nodes[broker_id].broker
    broker.begin_tick()
    offsets_of(broker).store(at, offset, Session(), told.append, is_auto=is_auto)
    broker.end_tick()
    return told


def advance(cell: BrokerCell, broker_id: int, at: IggyPlace, seen: int | None, offset: int) -> None:
    """Stores what was polled behind `seen`, as a session of this broker does it."""
    told: list[ErrorCode] = []
    broker = cell.nodes[broker_id].broker
    broker.begin_tick()
    offsets_of(broker).advance(at, seen, offset, Session(), told.append)
    broker.end_tick()
    cell.run(500)
    assert told == [ErrorCode.NONE]


def store(cell: BrokerCell, broker_id: int, at: IggyPlace, offset: int, *, is_auto: bool = False) -> None:
    told = begin_store(cell, broker_id, at, offset, is_auto=is_auto)
    cell.run(500)
    assert told == [ErrorCode.NONE]


def stored(cell: BrokerCell, broker_id: int, at: IggyPlace) -> int | None:
    """The stored offset, as a session of this broker finds it."""
    for _ in range(10):
        told: list[tuple[ErrorCode, int | None]] = []

        def answered(
            error: ErrorCode, offset: int | None, told: list[tuple[ErrorCode, int | None]] = told
        ) -> None:
            told.append((error, offset))

        broker = cell.nodes[broker_id].broker
        broker.begin_tick()
        offsets_of(broker).get(at, Session(), answered)
        broker.end_tick()
        cell.run(500)
        ((error, offset),) = told
        if not error:
            return offset
    raise AssertionError(f"it is refused for ever: {error!r}")


def led_at(node: CellNode, number: int) -> int:
    """Who leads a partition, as this broker knows it."""
    view = node.controller.view.topic(TOPIC)
    assert view is not None
    return view.partitions[number].leader
