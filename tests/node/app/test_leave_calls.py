"""Controllers are asked while their names have no answer: by the addresses that were looked up before."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc.aio
import pytest

from tank_node.app import leave_calls
from tank_node.app.cluster_process import find_cluster_id
from tank_node.app.leave_calls import LeaveCalls
from tank_protos.call_proof import NO_PROOF
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import (
    AdminServicer,
    BrokersServicer,
    add_AdminServicer_to_server,
    add_BrokersServicer_to_server,
)
from tank_protos.resolver import Resolver
from tests.support.patience import patient

HOST, OTHER = "controller-0.tank.invalid", "controller-1.tank.invalid"
"""No name service but the test's own has them."""
WAIT_S = patient(20.0)


class Names:
    """A name service."""

    def __init__(self) -> None:
        self.known = {HOST, OTHER}
        self.is_away = False
        self.hangs: set[str] = set()
        self.asked: list[str] = []
        self.was_asked = asyncio.Condition()

    async def look_up(self, host: str) -> Sequence[tuple[Any, ...]]:
        async with self.was_asked:
            self.asked.append(host)
            self.was_asked.notify_all()
        if host in self.hangs:
            await asyncio.Event().wait()
        if self.is_away:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, None, None, "", ("127.0.0.1", 0))]

    async def asked_for(self, host: str, times: int = 1) -> None:
        """Returns when it was asked for it so often."""
        async with self.was_asked:
            await self.was_asked.wait_for(lambda: self.asked.count(host) >= times)


class Controller(AdminServicer, BrokersServicer):
    """Belongs to no cluster yet, and lets every broker go."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.asked = asyncio.Event()

    async def Describe(
        self, request: pb.DescribeControllersRequest, context: object
    ) -> pb.ControllersDescription:
        self.asked.set()
        return pb.ControllersDescription(cluster_id=self.cluster_id)

    async def Leave(self, request: pb.LeaveRequest, context: object) -> pb.LeaveAnswer:
        return pb.LeaveAnswer(may_stop=True, reason=f"{request.broker_id} holds nothing.")


def told(story: Callable[[Controller, int, Names, Resolver], Awaitable[None]]) -> None:
    """Plays a story with a controller that runs, and its port."""

    async def play() -> None:
        server, controller, names = grpc.aio.server(), Controller(), Names()
        add_AdminServicer_to_server(controller, server)
        add_BrokersServicer_to_server(controller, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            resolver = Resolver(names.look_up, lambda: 0.0, logging.getLogger("t"))
            async with asyncio.timeout(WAIT_S):
                await story(controller, port, names, resolver)
        finally:
            await server.stop(0)

    asyncio.run(play())


def test_a_new_broker_that_waits_for_its_cluster_goes_on_asking() -> None:
    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        found = asyncio.create_task(find_cluster_id([f"{HOST}:{port}"], resolver))
        await controller.asked.wait()
        names.is_away = True
        controller.cluster_id = "c"
        assert await found == "c"

    told(story)


def test_a_name_that_the_name_service_is_silent_about_does_not_hold_up_the_others() -> None:
    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        names.hangs.add(OTHER)
        controller.cluster_id = "c"
        assert await find_cluster_id([f"{OTHER}:{port}", f"{HOST}:{port}"], resolver) == "c"

    told(story)


def test_a_broker_that_leaves_goes_on_asking_controllers_that_it_had_not_asked_before() -> None:
    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        calls = LeaveCalls(pb.LeaveRequest(broker_id=3), NO_PROOF, resolver)
        async with calls.looking_up([f"{HOST}:{port}", f"{OTHER}:{port}"]):
            await names.asked_for(OTHER)
            await resolver.resolve(OTHER)  # waits for the lookup that is under way
            names.is_away = True
            for host in (HOST, OTHER):
                answer = await calls.ask(f"{host}:{port}")
                assert answer is not None, host
                assert answer.reason == "3 holds nothing."
                assert await calls.is_named(f"{host}:{port}")

    told(story)


def test_addresses_of_controllers_are_looked_up_again_while_a_broker_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leave_calls, "LOOK_UP_EVERY_S", 0.0)

    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        calls = LeaveCalls(pb.LeaveRequest(), NO_PROOF, resolver)
        async with calls.looking_up([f"{HOST}:{port}"]):
            await names.asked_for(HOST, times=3)
        assert set(names.asked) == {HOST}

    told(story)


def test_a_process_that_is_new_knows_no_address_and_takes_silence_for_no_end_of_the_cluster() -> None:
    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        names.is_away = True
        calls = LeaveCalls(pb.LeaveRequest(), NO_PROOF, resolver)
        assert await calls.ask(f"{HOST}:{port}") is None
        assert await calls.is_named(f"{HOST}:{port}")

    told(story)


def test_a_controller_whose_name_was_taken_away_has_none_though_it_had_one() -> None:
    async def story(controller: Controller, port: int, names: Names, resolver: Resolver) -> None:
        calls = LeaveCalls(pb.LeaveRequest(), NO_PROOF, resolver)
        assert await calls.ask(f"{HOST}:{port}") is not None
        names.known.clear()
        assert await calls.ask(f"{HOST}:{port}") is None
        assert not await calls.is_named(f"{HOST}:{port}")

    told(story)
