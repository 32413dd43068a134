"""A controller's gRPC port: its services, health and reflection, behind the gate that judges every call."""

import grpc.aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tank_controller.node import NodeHost
from tank_controller.raft_node.peers import SERVER_OPTIONS
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import BrokersService, ControllersService
from tank_controller.security.trust import SecretGate, Trust, TrustService
from tank_protos import grpc_channel
from tank_protos.generated.control_pb2_grpc import (
    add_AdminServicer_to_server,
    add_BrokersServicer_to_server,
    add_ControllersServicer_to_server,
    add_TrustServicer_to_server,
)

SERVICES = (
    "tank.control.Controllers", "tank.control.Brokers", "tank.control.Admin", "tank.control.Trust",
)  # fmt: skip


class ControllerListenError(OSError):
    """An address that can't be listened on; the message says what to do."""


async def serve(
    host: NodeHost, trust: Trust, health_servicer: health.aio.HealthServicer, listen: str
) -> grpc.aio.Server:
    """Starts the server and returns it. Raises ControllerListenError."""
    server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=(SecretGate(trust),))
    add_ControllersServicer_to_server(ControllersService(host, trust), server)
    add_BrokersServicer_to_server(BrokersService(host), server)
    add_AdminServicer_to_server(AdminService(host), server)
    add_TrustServicer_to_server(TrustService(trust), server)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        grpc_channel.listen(server, listen)
    except RuntimeError as error:
        raise ControllerListenError(
            f"can't listen on {listen}: choose another address with --listen"
        ) from error
    await server.start()
    return server
