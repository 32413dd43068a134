"""A broker's HTTP API: what runs each operation, and the bounds of all."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tank_node.api import clients
from tank_node.api.document import document
from tank_node.api.errors import starting
from tank_node.api.groups import GroupOperations
from tank_node.api.inner_client import InnerClient
from tank_node.api.operations import OPERATIONS, ApiName
from tank_node.broker.broker import Broker
from tank_node.monitoring.http import MAX_BODY_BYTES
from tank_node.session import Session
from tank_protos.http_api.access import Access
from tank_protos.http_api.errors import ApiError, Json, invalid
from tank_protos.http_api.operations import ApiRequest
from tank_protos.http_api.service import Handler, HttpService, ServiceLimits
from tank_protos.wire.errors import WireError

LIMITS: Final = ServiceLimits(requests=16, answer_s=30.0, body_s=10.0, body_bytes=MAX_BODY_BYTES)
"""Each request may hold a list of all groups, and the ends of MAX_RESET partitions."""

_log = logging.getLogger("tank.api")


class BrokerApi(HttpService):
    """The HTTP API of one broker."""

    def __init__(
        self, broker: Callable[[], Broker | None], open_session: Callable[[Broker], Session], access: Access
    ) -> None:
        """broker: None while it starts. open_session: makes a session of TANK's protocol, without a
        socket."""
        self._broker = broker
        self._open_session = open_session
        super().__init__(OPERATIONS.values(), self._by_name(), access, lambda: LIMITS, _log, _known)

    def _by_name(self) -> Mapping[ApiName, Handler]:
        return {
            ApiName.DESCRIBE: _description,
            ApiName.LIST_GROUPS: self._of_groups(GroupOperations.listed),
            ApiName.GET_GROUP: self._of_groups(GroupOperations.one),
            ApiName.DELETE_GROUP: self._of_groups(GroupOperations.delete),
            ApiName.RESET_GROUP: self._of_groups(GroupOperations.reset),
            ApiName.LIST_CLIENTS: self._connections,
        }

    def _of_groups(self, run: Callable[[GroupOperations, ApiRequest], Awaitable[Json]]) -> Handler:
        async def handle(asked: ApiRequest) -> Json:
            broker = self._running()
            operations = GroupOperations(broker, lambda: InnerClient(broker, self._open_session(broker)))
            return await run(operations, asked)

        return handle

    async def _connections(self, asked: ApiRequest) -> Json:
        return clients.connections(self._running(), asked)

    def _running(self) -> Broker:
        broker = self._broker()
        if broker is None:
            raise starting()
        return broker


async def _description(asked: ApiRequest) -> Json:
    return document()


def _known(error: Exception) -> ApiError | None:
    """A name that is too long for a message is the client's fault."""
    return invalid(str(error)) if isinstance(error, WireError) else None
