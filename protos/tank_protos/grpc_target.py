"""gRPC targets with the addresses that a `Resolver` knows, which also work while the name service fails.

A gRPC channel keeps its addresses for life, but a new channel looks its name up, and fails while no name
service answers. So a caller that makes a channel for each attempt passes addresses in place of a name.
"""

from typing import NamedTuple

from tank_protos.resolver import Resolver, host_and_port, numeric


class GrpcTarget(NamedTuple):
    """The target and the options of a channel."""

    target: str
    options: tuple[tuple[str, str], ...]
    """Options in addition to the caller's own."""


async def target_of(resolver: Resolver, address: str) -> GrpcTarget:
    """The target for host:port; the host is a name or an address. A name without known addresses stays a
    name, so that gRPC reports its error.
    """
    host, port = host_and_port(address)
    if numeric(host) is not None:
        return GrpcTarget(address, ())
    try:
        found = await resolver.resolve(host)
    except OSError:
        return GrpcTarget(address, ())
    family, first = found[0]  # a gRPC channel takes addresses of one family
    numbers = [number for each, number in found if each == family]
    if ":" in first:
        target = "ipv6:" + ",".join(f"[{number}]:{port}" for number in numbers)
    else:
        target = "ipv4:" + ",".join(f"{number}:{port}" for number in numbers)
    # Requests still carry the host's name.
    return GrpcTarget(target, (("grpc.default_authority", address),))
