"""A controller's gRPC port: its services, health and reflection, behind the gate that judges every call."""

from typing import Protocol

import grpc.aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tank_controller.raft_node.peers import SERVER_OPTIONS
from tank_controller.rpc import brokers
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import BrokersService, ControllersService
from tank_controller.security.trust import Gate, Trust, TrustService
from tank_protos.generated.control_pb2_grpc import (
    add_AdminServicer_to_server,
    add_BrokersServicer_to_server,
    add_ControllersServicer_to_server,
    add_TrustServicer_to_server,
)

SERVICES = (
    "tank.control.Controllers", "tank.control.Brokers", "tank.control.Admin", "tank.control.Trust",
)  # fmt: skip


class ListenError(OSError):
    """An address that can't be listened on; the message says what to do."""


class House(brokers.House, Protocol):
    """The process, as its services see it."""


async def serve(
    house: House, trust: Trust, health_servicer: health.aio.HealthServicer, listen: str
) -> grpc.aio.Server:
    """The server, which has begun. ListenError."""
    server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=(Gate(trust),))
    add_ControllersServicer_to_server(ControllersService(house, trust), server)
    add_BrokersServicer_to_server(BrokersService(house), server)
    add_AdminServicer_to_server(AdminService(house), server)
    add_TrustServicer_to_server(TrustService(trust), server)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        server.add_insecure_port(listen)
    except RuntimeError as error:
        raise ListenError(f"can't listen on {listen}: choose another address with --listen") from error
    await server.start()
    return server
