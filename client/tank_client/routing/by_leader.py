"""Questions about many partitions, each put to the brokers that lead them: ends and times.

A broker answers for what it leads. So partitions are asked for leader by leader, all at once; what a broker
could not tell after all is asked for again alone, which follows the leader like any call.
"""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from tank_client import errors
from tank_client.model import Address, Ends, FoundTime
from tank_client.routing.calls import Caller
from tank_client.routing.routes import Route
from tank_client.wire.topic_operations import await_ends, discover_partitions, find_by_time

T = TypeVar("T")

_WAIT_MS = 1_000
"""How long one question waits where several brokers are asked: when one has news, the others go on waiting
for as long, and nobody listens."""
_LONE_WAIT_MS = 5_000
"""The same where one broker is asked: it may lead no longer, and not know it."""
_LEAST_S = 0.05
"""The least time from question to question."""
_FIND_S = 1.0
"""How long to wait for word of the leaders: without it the question goes to whoever is there."""


async def find_times(caller: Caller, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
    """{partition: milliseconds of the epoch} -> {partition: where the first message at or after it is}."""
    groups = await _by_leader(caller, [(topic, partition) for partition in times])
    shares = [{partition: times[partition] for _, partition in group} for group in groups]
    found: dict[int, FoundTime] = {}
    for answers in await asyncio.gather(*(caller.call(find_by_time(topic, share)) for share in shares)):
        for partition, answer in answers.items():
            if _is_unknown(answer) or (isinstance(answer, errors.TankError) and answer.retriable):
                answer = (await caller.call(find_by_time(topic, {partition: times[partition]})))[partition]
            found[partition] = _good(answer)
    return {partition: found[partition] for partition in times}


async def wait_for_ends(
    caller: Caller, known: Mapping[Route, int | None], max_wait_ms: int
) -> dict[Route, Ends]:
    """How far partitions reach, once one of them reaches further than the mark given (None: at once), at the
    latest after `max_wait_ms`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max_wait_ms / 1000
    while True:
        begun = loop.time()
        groups = await _by_leader(caller, list(known))
        shares = [{route: known[route] for route in group} for group in groups]
        left_ms = max(int((deadline - loop.time()) * 1000), 0)
        ends = await _ends(caller, shares, min(left_ms, _LONE_WAIT_MS if len(shares) == 1 else _WAIT_MS))
        for route in {topic: (topic, partition) for topic, partition in known}.values():
            caller.leaders.doubt(route)
        if _news(known, ends) or loop.time() >= deadline:
            return {route: ends[route] for route in known}
        # A broker that has too many who wait answers at once.
        await asyncio.sleep(min(begun + _LEAST_S, deadline) - loop.time())


async def end_of(caller: Caller, route: Route, answer: Ends | errors.TankError) -> Ends:
    """The end out of an answer about many; where that broker could not tell, by a question of its own."""
    if isinstance(answer, Ends):
        return answer
    if _is_unknown(answer):
        return _good((await caller.call(await_ends({route: None}, 0)))[route])
    if not answer.retriable:
        raise answer
    topic, partition = route
    return _good((await caller.call(discover_partitions(topic, partition)))[partition])


async def _by_leader(caller: Caller, routes: list[Route]) -> list[list[Route]]:
    """In groups of one leader each. Who leads is asked for where it is not known."""
    known = caller.pool.routes
    missing = {topic for topic, partition in routes if not known.knows((topic, partition))}
    if missing:
        finding = [caller.leaders.find(topic, known.target(None)) for topic in missing]
        await asyncio.wait(finding, timeout=_FIND_S)
    groups: dict[Address, list[Route]] = {}
    for route in routes:
        groups.setdefault(known.target(route), []).append(route)
    return list(groups.values())


async def _ends(caller: Caller, shares: list[dict[Route, int | None]], wait_ms: int) -> dict[Route, Ends]:
    """Of all shares, one a leader. When one of them has news the others do not wait on: they are asked how it
    stands."""
    asking = {asyncio.ensure_future(_share(caller, share, wait_ms)) for share in shares}
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
    for found in await asyncio.gather(*(_share(caller, share, 0) for share in late)):
        ends |= found
    return ends


async def _share(caller: Caller, share: Mapping[Route, int | None], wait_ms: int) -> dict[Route, Ends]:
    answers = await caller.call(await_ends(share, wait_ms))
    return {route: await end_of(caller, route, answer) for route, answer in answers.items()}


def _news(known: Mapping[Route, int | None], ends: Mapping[Route, Ends]) -> bool:
    return any(
        mark is None or ends[route].high_water_mark > mark for route, mark in known.items() if route in ends
    )


def _is_unknown(answer: object) -> bool:
    """Whether that broker knows no such topic or partition. It may only not have heard of it yet: who asks
    for it alone finds out (`Leaders.lagging`)."""
    return isinstance(answer, errors.UnknownTopic | errors.UnknownPartition)


def _good(answer: T | errors.TankError) -> T:
    """The answer, unless it is an error: then that is raised."""
    if isinstance(answer, errors.TankError):
        raise answer
    return answer
