"""Three brokers, of which one coordinates all groups, and what clients ask them."""

from pathlib import Path
from typing import TypeVar

from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupHeartbeatRequest,
    OwnedTopic,
    PositionToCommit,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell, PipeEnd

M = TypeVar("M", bound=Message)
TOPIC = "orders"
MEMBER_ID = "A" * 22
PASSING = (ErrorCode.COORDINATOR_LOADING, ErrorCode.TIMED_OUT)


def cell_of(folder: Path, limits: Limits | None = None) -> BrokerCell:
    """Three brokers; broker 1 coordinates all groups, and has read them."""
    cell = BrokerCell(folder, 3, limits)
    for node in cell.nodes.values():
        node.controller.view.feature_level = NATIVE_GROUPS
    cell.create(TOPIC, 4, flush="replicated")
    cell.create(GROUPS_TOPIC, 1, flush="replicated", log_format="kafka", log_cleanup_policy="cleanup")
    cell.run(300)
    assert fetched(cell, cell.nodes[1].client(), "none").error == ErrorCode.UNKNOWN_GROUP, "it is read"
    return cell


def ask(cell: BrokerCell, client: BenchClient, request: Message, answer: type[M], version: int = 0) -> M:
    """Asks until the answer is no passing refusal."""
    for _ in range(20):
        client.send(request)
        told = answered(cell, client, answer, version)
        if getattr(told, "error", 0) not in PASSING:
            return told
    raise AssertionError("it is refused for ever")


def answered(cell: BrokerCell, client: BenchClient, answer: type[M], version: int = 0) -> M:
    cell.run(300)
    ((message_id, payload),) = client.answers()
    assert message_id == answer.ID
    return answer.decode(payload, version)


def commit_of(number: int, group: str = "g", partition: int = 0, version: int = 1) -> CommitPositionsRequest:
    position = PositionToCommit(TOPIC, partition, number, "a note")
    return CommitPositionsRequest(version, 9, group, positions=[position])


def commit(cell: BrokerCell, client: BenchClient, number: int, group: str = "g") -> None:
    told = ask(cell, client, commit_of(number, group), CommitPositionsResponse)
    assert (told.request_id, told.error, [each.error for each in told.results]) == (9, 0, [0])


def fetched(cell: BrokerCell, client: BenchClient, group: str = "g") -> FetchPositionsResponse:
    return ask(cell, client, FetchPositionsRequest(0, 3, group), FetchPositionsResponse)


def numbers(told: FetchPositionsResponse) -> dict[tuple[str, int], int]:
    return {(each.topic, each.partition): each.sequence_number for each in told.positions}


def line(cell: BrokerCell, own: int, other: int) -> PipeEnd:
    """The far end of the connection on which a broker forwards requests to another one."""
    (far,) = [
        far
        for one, two, _, far in cell.pipes
        if (one, two) == (own, other) and far.session.is_forwarder and not far.closed
    ]
    return far


def joins() -> GroupHeartbeatRequest:
    return beat(0, [])


def beat(epoch: int, owned: list[int]) -> GroupHeartbeatRequest:
    """A heartbeat of one member that reads the topic."""
    return GroupHeartbeatRequest(
        0,
        7,
        "g",
        MEMBER_ID,
        "",
        epoch,
        60_000,
        1,
        [TOPIC],
        "",
        1,
        [OwnedTopic(TOPIC, owned)] if owned else [],
    )
