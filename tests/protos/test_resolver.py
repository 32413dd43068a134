"""Names are looked up while the name service is well, away, slow, and sure that there is no such name."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest

from tank_protos.resolver import MAX_LOOKUPS, HostAddress, Resolver, look_up
from tests.support.patience import patient
from tests.support.waiting import run

V4 = int(socket.AF_INET)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run_it(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return run_it


class NameService:
    """What a test lets the name service say."""

    def __init__(self, **addresses: str) -> None:
        self.addresses = addresses
        self.failing: int | None = None
        """The code of each answer instead of an address."""
        self.hanging: asyncio.Event | None = None
        """Set: no answer comes before it."""
        self.asked = 0

    async def look_up(self, host: str) -> Sequence[tuple[Any, ...]]:
        self.asked += 1
        if self.hanging is not None:
            await self.hanging.wait()
        if self.failing is not None:
            raise socket.gaierror(self.failing, "as the test wants it")
        return [(V4, socket.SOCK_STREAM, 6, "", (self.addresses[host], 0))]


class Watch:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def resolver_of(names: NameService, watch: Watch | None = None, **options: Any) -> Resolver:
    log = logging.getLogger("tests.resolver")
    return Resolver(names.look_up, watch or Watch(), log, **({"lookup_s": 0.05} | options))


def at(*addresses: str) -> tuple[HostAddress, ...]:
    return tuple((V4, address) for address in addresses)


@pytest.mark.parametrize("code", [socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_MEMORY, errno.EMFILE])
@in_a_loop
async def test_the_last_address_is_used_while_the_name_service_is_away(code: int) -> None:
    names = NameService(b1="10.0.0.1")
    resolver = resolver_of(names)
    assert await resolver.resolve("b1") == at("10.0.0.1")
    names.failing = code
    assert await resolver.resolve("b1") == at("10.0.0.1")
    names.failing, names.addresses["b1"] = None, "10.0.0.2"
    assert await resolver.resolve("b1") == at("10.0.0.2")


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_NODATA])
@in_a_loop
async def test_a_name_that_is_not_there_any_more_has_no_last_address(code: int) -> None:
    names = NameService(b1="10.0.0.1")
    resolver = resolver_of(names)
    await resolver.resolve("b1")
    names.failing = code
    with pytest.raises(socket.gaierror) as raised:
        await resolver.resolve("b1")
    assert raised.value.errno == code
    names.failing = socket.EAI_AGAIN  # and what it was is forgotten
    with pytest.raises(socket.gaierror):
        await resolver.resolve("b1")


@in_a_loop
async def test_a_name_without_a_last_address_fails_as_the_lookup_does() -> None:
    names = NameService()
    names.failing = socket.EAI_AGAIN
    with pytest.raises(socket.gaierror) as raised:
        await resolver_of(names).resolve("b1")
    assert raised.value.errno == socket.EAI_AGAIN


@in_a_loop
async def test_a_name_service_that_hangs_is_not_waited_for_and_is_asked_once() -> None:
    names = NameService(b1="10.0.0.1")
    resolver = resolver_of(names)
    await resolver.resolve("b1")
    names.hanging = asyncio.Event()
    for _ in range(5):
        assert await resolver.resolve("b1") == at("10.0.0.1")
    assert names.asked == 2
    names.addresses["b1"] = "10.0.0.2"
    names.hanging.set()
    assert await resolver.resolve("b1") == at("10.0.0.2")


@in_a_loop
async def test_that_last_addresses_are_used_is_said_once_and_so_is_their_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tests.resolver")
    names, watch = NameService(b1="10.0.0.1"), Watch()
    resolver = resolver_of(names, watch)
    await resolver.resolve("b1")
    assert not caplog.messages
    names.failing = socket.EAI_AGAIN
    for _ in range(3):
        await resolver.resolve("b1")
    watch.now_s += 43
    names.failing = None
    for _ in range(3):
        await resolver.resolve("b1")
    away, back = caplog.messages
    assert "does not answer for b1" in away
    assert "10.0.0.1" in away
    assert back == "the name service answers for b1 again, after 43 s"


@in_a_loop
async def test_names_that_are_kept_are_bounded() -> None:
    names = NameService(b1="10.0.0.1", b2="10.0.0.2", b3="10.0.0.3")
    resolver = resolver_of(names, max_names=2)
    for host in ("b1", "b2", "b1", "b3"):
        await resolver.resolve(host)
    names.failing = socket.EAI_AGAIN
    assert await resolver.resolve("b1") == at("10.0.0.1")
    assert await resolver.resolve("b3") == at("10.0.0.3")
    with pytest.raises(socket.gaierror):
        await resolver.resolve("b2")


@in_a_loop
async def test_an_address_is_not_looked_up() -> None:
    names = NameService()
    resolver = resolver_of(names)
    assert await resolver.resolve("127.0.0.1") == at("127.0.0.1")
    assert await resolver.resolve("::1") == ((int(socket.AF_INET6), "::1"),)
    assert names.asked == 0


@in_a_loop
async def test_one_who_gives_up_waiting_leaves_the_lookup_to_the_others() -> None:
    names = NameService(b1="10.0.0.1")
    names.hanging = asyncio.Event()
    resolver = resolver_of(names)
    impatient = asyncio.create_task(resolver.resolve("b1"))
    patient = asyncio.create_task(resolver.resolve("b1"))
    await asyncio.sleep(0)
    impatient.cancel()
    names.hanging.set()
    assert await patient == at("10.0.0.1")
    assert names.asked == 1


@in_a_loop
async def test_names_that_were_learned_are_known_when_the_name_service_is_away() -> None:
    names, watch = NameService(b1="10.0.0.1", b2="10.0.0.2"), Watch()
    resolver = resolver_of(names, watch)
    await resolver.learn(["b1", "127.0.0.1", "b2"])
    assert names.asked == 2
    await resolver.learn(["b1", "b2"])
    assert names.asked == 2, "they were answered a moment ago"
    names.addresses["b1"] = "10.0.0.3"
    watch.now_s += 300
    await resolver.learn(["b1"])
    names.failing = socket.EAI_AGAIN
    watch.now_s += 300
    await resolver.learn(["b1", "b2", "b3"])
    assert await resolver.resolve("b1") == at("10.0.0.3")
    assert await resolver.resolve("b2") == resolver.last("b2") == at("10.0.0.2")
    assert resolver.last("b3") == ()
    assert resolver.last("127.0.0.1") == at("127.0.0.1")


@in_a_loop
async def test_a_name_service_that_is_away_for_one_name_is_not_waited_for_at_others() -> None:
    names = NameService(b1="10.0.0.1", b2="10.0.0.2")
    resolver = resolver_of(names, lookup_s=1000.0)
    await resolver.learn(["b1", "b2"])
    names.failing = socket.EAI_AGAIN
    await resolver.resolve("b1")
    names.hanging = asyncio.Event()
    assert await resolver.resolve("b2") == at("10.0.0.2")
    names.hanging.set()


@in_a_loop
async def test_lookups_under_way_are_bounded() -> None:
    names = NameService(**{f"b{number}": "10.0.0.1" for number in range(2 * MAX_LOOKUPS)})
    names.hanging = asyncio.Event()
    resolver = resolver_of(names)
    waiting = [asyncio.create_task(resolver.resolve(host)) for host in names.addresses]
    for _ in range(5):
        await asyncio.sleep(0)
    assert names.asked == MAX_LOOKUPS
    names.hanging.set()
    assert await asyncio.gather(*waiting) == [at("10.0.0.1")] * len(waiting)


def test_a_lookup_that_hangs_does_not_keep_a_program_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, released, returned = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        asked.set()
        released.wait(patient(60))
        returned.set()
        return []

    async def story() -> None:
        task = asyncio.create_task(look_up("b1.test"))
        while not asked.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.001)
        task.cancel()

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    run(story())
    assert not returned.is_set()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "look up b1.test")
    released.set()


@in_a_loop
async def test_this_machines_name_service_is_asked() -> None:
    assert at("127.0.0.1")[0] in await Resolver(look_up, Watch(), logging.getLogger()).resolve("localhost")
    with pytest.raises(socket.gaierror) as raised:
        await look_up("a..b")
    assert raised.value.errno == socket.EAI_NONAME
