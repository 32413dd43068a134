"""Opens all gRPC connections of brokers, controllers and the command line, and listens for them. They have
no TLS yet, which belongs here; calls prove the cluster's secret.
"""

from collections.abc import Sequence

import grpc
import grpc.aio

Options = Sequence[tuple[str, object]]
"""gRPC's channel arguments."""


def channel(target: str, options: Options) -> grpc.aio.Channel:
    """A channel for a process that runs an event loop. `target`: host:port, or addresses in gRPC's notation
    (`grpc_target`).
    """
    return grpc.aio.insecure_channel(target, options=list(options))


def blocking_channel(target: str, options: Options) -> grpc.Channel:
    """A channel for a program that waits for each answer."""
    return grpc.insecure_channel(target, options=list(options))


def listen(server: grpc.aio.Server, address: str) -> int:
    """Makes a server listen at host:port; returns the port.

    Raises RuntimeError when the address is taken, or not one of this machine.
    """
    return int(server.add_insecure_port(address))
