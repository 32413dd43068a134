"""The positions of groups beside the ends of partitions, asked from the brokers that have them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tank_node.api.errors import refused
from tank_node.api.inner_client import InnerClient
from tank_node.partition.numbering import END
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    CommittedPosition,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchPositionsRequest,
    FetchPositionsResponse,
    PositionToCommit,
)

Place = tuple[str, int]
"""A topic's name and a partition's number."""

_CLIENT: Final = "http-api"
_AT_ONCE: Final = 200
"""How many partitions one request asks for their ends."""
_COMMITTED_AT_ONCE: Final = 1_000
"""How many positions one request commits."""
_MEMBERS_COMMIT: Final = 1
"""The version of a commit from which on a client says whether it is a member."""


@dataclass(slots=True, frozen=True)
class LogEnds:
    """The range of a partition."""

    first_available: int
    high_water_mark: int


async def committed(client: InnerClient, group: str) -> dict[Place, CommittedPosition]:
    """All positions of a group; none of a group that has committed none. Raises ApiError."""
    answer = await client.ask(
        lambda request_id: FetchPositionsRequest(request_id=request_id, group=group), FetchPositionsResponse
    )
    if answer.error == ErrorCode.UNKNOWN_GROUP:
        return {}
    if answer.error:
        raise refused(answer.error, answer.message)
    return {(each.topic, each.partition): each for each in answer.positions}


async def ends_of(client: InnerClient, places: Sequence[Place]) -> dict[Place, LogEnds]:
    """The ends of partitions; without those whose leaders don't answer, and those that are not there.

    Asks for the messages behind the end: unlike AwaitEnds, this is forwarded to the partitions' leaders.
    """
    found: dict[Place, LogEnds] = {}
    for at in range(0, len(places), _AT_ONCE):
        wanted = _by_topic(places[at : at + _AT_ONCE])
        topics = [
            ConsumeTopic(name, [ConsumePartition(number, END, 1) for number in numbers])
            for name, numbers in wanted.items()
        ]
        answer = await client.ask(
            lambda request_id, topics=topics: ConsumeRequest(  # type: ignore[misc]
                request_id=request_id, client_id=_CLIENT, topics=topics
            ),
            ConsumeResponse,
        )
        for topic in answer.topics:
            for each in topic.partitions:
                if not topic.unknown and each.flag == ConsumeFlag.DATA:
                    ends = LogEnds(each.base_sequence_number, each.high_water_mark)
                    found[topic.name, each.partition] = ends
    return found


async def commit(client: InnerClient, group: str, numbers: Mapping[Place, int]) -> None:
    """Stores positions of a group without members. Raises ApiError."""
    places = list(numbers)
    for at in range(0, len(places), _COMMITTED_AT_ONCE):
        part = [PositionToCommit(*each, numbers[each], "") for each in places[at : at + _COMMITTED_AT_ONCE]]
        answer = await client.ask(
            lambda request_id, part=part: CommitPositionsRequest(  # type: ignore[misc]
                version=_MEMBERS_COMMIT, request_id=request_id, group=group, positions=part
            ),
            CommitPositionsResponse,
            _MEMBERS_COMMIT,
        )
        if answer.error:
            raise refused(answer.error, answer.message)
        for place, result in zip(part, answer.results, strict=True):
            if result.error:
                raise refused(result.error, f"{place.topic}/{place.partition} could not be set")


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found
