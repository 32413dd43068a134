"""Requests about many partitions, split by their leaders.

A broker answers for the partitions that it leads. So one request goes to each leader, all at the same time; a
partition that its broker does not lead after all is asked for alone, by a call that finds the leader.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from tank_client import errors
from tank_client.model import Address, Ends, FoundTime, Route
from tank_client.routing.calls import Calls
from tank_client.wire.topic_operations import await_ends, discover_partitions, find_by_time

T = TypeVar("T")

_WAIT_MS = 1_000
"""How long a request waits when several brokers are asked: after one has news, the others' requests keep
waiting for this time, although no caller needs them.
"""
LONE_WAIT_MS = 5_000
"""The same when one broker is asked, which may have been replaced as leader without knowing it."""
_LEAST_S = 0.05
"""The least time between two requests."""
_FIND_S = 1.0
"""How long to wait for the names of the leaders; without them the request goes to any broker."""


async def find_times(calls: Calls, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
    """{partition: milliseconds of the epoch} -> {partition: where the first message at or after it is}."""
    groups = await _by_leader(calls, [(topic, partition) for partition in times])
    shares = [{partition: times[partition] for _, partition in group} for group in groups]
    found: dict[int, FoundTime] = {}
    for answers in await asyncio.gather(*(calls.call(find_by_time(topic, share)) for share in shares)):
        for partition, answer in answers.items():
            if _is_unknown(answer) or (isinstance(answer, errors.TankError) and answer.retriable):
                answer = (await calls.call(find_by_time(topic, {partition: times[partition]})))[partition]
            found[partition] = _good(answer)
    return {partition: found[partition] for partition in times}


async def wait_for_ends(
    calls: Calls, known: Mapping[Route, int | None], max_wait_ms: int
) -> dict[Route, Ends]:
    """The ends of partitions, once one of them is above the high-water mark given for it (None: at once), and
    after `max_wait_ms` at the latest.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max_wait_ms / 1000
    while True:
        begun = loop.time()
        groups = await _by_leader(calls, list(known))
        shares = [{route: known[route] for route in group} for group in groups]
        left_ms = max(int((deadline - loop.time()) * 1000), 0)
        ends = await _ends(calls, shares, min(left_ms, LONE_WAIT_MS if len(shares) == 1 else _WAIT_MS))
        for route in {topic: (topic, partition) for topic, partition in known}.values():
            calls.leaders.doubt(route)
        if _news(known, ends) or loop.time() >= deadline:
            return {route: ends[route] for route in known}
        # A broker with too many waiting requests answers at once.
        await asyncio.sleep(min(begun + _LEAST_S, deadline) - loop.time())


async def end_of(calls: Calls, route: Route, answer: Ends | errors.TankError) -> Ends:
    """Returns a partition's end from an answer about many partitions; asks for it alone when that broker did
    not know it.
    """
    if isinstance(answer, Ends):
        return answer
    if _is_unknown(answer):
        return _good((await calls.call(await_ends({route: None}, 0)))[route])
    if not answer.retriable:
        raise answer
    topic, partition = route
    return _good((await calls.call(discover_partitions(topic, partition)))[partition])


async def _by_leader(calls: Calls, routes: list[Route]) -> list[list[Route]]:
    """Groups partitions by their leader. Unknown leaders are asked for first."""
    known = calls.pool.routes
    missing = {topic for topic, partition in routes if not known.knows((topic, partition))}
    if missing:
        finding = [calls.leaders.find(topic, known.target(None)) for topic in missing]
        await asyncio.wait(finding, timeout=_FIND_S)
    groups: dict[Address, list[Route]] = {}
    for route in routes:
        groups.setdefault(known.target(route), []).append(route)
    return list(groups.values())


async def _ends(calls: Calls, shares: list[dict[Route, int | None]], wait_ms: int) -> dict[Route, Ends]:
    """The ends of all partitions; each share is of one leader. When one leader has news, the others are asked
    for their present ends.
    """
    asking = {asyncio.ensure_future(_share(calls, share, wait_ms)) for share in shares}
    waiting, ends = asking, dict[Route, Ends]()
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                ends |= task.result()
            if wait_ms and any(_news(share, ends) for share in shares):
                break
    finally:
        for task in asking:
            task.cancel()
    late = [share for share in shares if not ends.keys() >= share.keys()]
    for found in await asyncio.gather(*(_share(calls, share, 0) for share in late)):
        ends |= found
    return ends


async def _share(calls: Calls, share: Mapping[Route, int | None], wait_ms: int) -> dict[Route, Ends]:
    answers = await calls.call(await_ends(share, wait_ms))
    return {route: await end_of(calls, route, answer) for route, answer in answers.items()}


def _news(known: Mapping[Route, int | None], ends: Mapping[Route, Ends]) -> bool:
    return any(
        mark is None or ends[route].high_water_mark > mark for route, mark in known.items() if route in ends
    )


def _is_unknown(answer: object) -> bool:
    """Whether that broker doesn't know the topic or the partition. The broker may not have learned of it yet:
    a request about the partition alone decides (`LeaderFinder.lagging`).
    """
    return isinstance(answer, errors.UnknownTopic | errors.UnknownPartition)


def _good(answer: T | errors.TankError) -> T:
    """Returns the answer; raises it when it is an error."""
    if isinstance(answer, errors.TankError):
        raise answer
    return answer
