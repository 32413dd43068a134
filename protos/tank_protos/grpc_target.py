"""gRPC to a host by the addresses that a `Resolver` knows, also while the name service is away.

A channel of gRPC keeps the addresses that it was told as long as it lives. A new one looks its name up anew,
and comes to nothing while no name service answers: a caller that makes one for each attempt dials addresses.
"""

from typing import NamedTuple

from tank_protos.resolver import Resolver, host_and_port, numeric


class GrpcTarget(NamedTuple):
    """What a channel is made of."""

    target: str
    options: tuple[tuple[str, str], ...]
    """Beside the caller's own."""


async def target_of(resolver: Resolver, address: str) -> GrpcTarget:
    """For host:port, where the host is a name or an address. A name without an address stays a name: gRPC
    says what is wrong with it."""
    host, port = host_and_port(address)
    if numeric(host) is not None:
        return GrpcTarget(address, ())
    try:
        found = await resolver.resolve(host)
    except OSError:
        return GrpcTarget(address, ())
    family, first = found[0]  # gRPC takes one of both for a channel
    numbers = [number for each, number in found if each == family]
    if ":" in first:
        target = "ipv6:" + ",".join(f"[{number}]:{port}" for number in numbers)
    else:
        target = "ipv4:" + ",".join(f"{number}:{port}" for number in numbers)
    # The other side is called by its name all the same.
    return GrpcTarget(target, (("grpc.default_authority", address),))
