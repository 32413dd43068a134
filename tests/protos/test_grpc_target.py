"""What gRPC dials: the addresses of a name, the last ones while the name service is away, else the name."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from tank_protos.grpc_target import GrpcTarget, target_of
from tank_protos.resolver import Resolver


class Names:
    """A name service."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.away = False

    async def look_up(self, host: str) -> Sequence[tuple[Any, ...]]:
        if self.away:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        families = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in self.addresses]
        return [
            (family, None, None, "", (each, 0)) for family, each in zip(families, self.addresses, strict=True)
        ]


def dialed(names: Names, *addresses: str) -> list[GrpcTarget]:
    async def ask() -> list[GrpcTarget]:
        resolver = Resolver(names.look_up, lambda: 0.0, logging.getLogger("t"))
        found = []
        for address in addresses:
            found.append(await target_of(resolver, address))
            names.away = True
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("addresses", "target"),
    [
        (["10.0.0.1"], "ipv4:10.0.0.1:9090"),
        (["10.0.0.1", "10.0.0.2"], "ipv4:10.0.0.1:9090,10.0.0.2:9090"),
        (["fd00::1", "10.0.0.1"], "ipv6:[fd00::1]:9090"),
    ],
)
def test_a_name_is_dialed_by_its_addresses_and_called_by_itself(addresses: list[str], target: str) -> None:
    expected = GrpcTarget(target, (("grpc.default_authority", "c-0.c:9090"),))
    assert dialed(Names(*addresses), "c-0.c:9090", "c-0.c:9090") == [expected] * 2, "also when it is away"


def test_an_address_and_a_name_without_one_stay_as_they_are() -> None:
    assert dialed(Names(), "127.0.0.1:9", "[::1]:9") == [
        GrpcTarget("127.0.0.1:9", ()),
        GrpcTarget("[::1]:9", ()),
    ]
    assert dialed(Names(), "gone:9") == [GrpcTarget("gone:9", ())]
