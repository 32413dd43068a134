"""DescribeConnections (85): the clients of this broker, of all protocols."""

from typing import TYPE_CHECKING

from tank_node.client_facts import UNKNOWN_BYTES, ServedClient
from tank_node.limits import DESCRIBED_CONNECTIONS
from tank_node.tank.ends import UNKNOWN
from tank_protos.generated.tank import ConnectedClient as DescribedConnection
from tank_protos.generated.tank import (
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
    SeenRequest,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

_LONGEST_TEXT = 255
"""The most bytes of a text that a client chose, in UTF-8."""
_LONGEST_CLIENT_ID = 1000
"""The same for its own name: longer ones are cut, so that many of them fit an answer."""


def describe_connections(session: "TankSession", payload: memoryview) -> None:
    """Answers with a page of the connections, the oldest first."""
    request = DescribeConnectionsRequest.decode(payload)
    broker = session.broker
    most = min(request.limit or DESCRIBED_CONNECTIONS, DESCRIBED_CONNECTIONS)
    found = broker.clients(request.after, most + 1)
    answer = DescribeConnectionsResponse(
        request_id=request.request_id,
        broker_id=broker.link.view.broker_id,
        has_more=len(found) > most,
        connections=[_described(each) for each in found[:most]],
    )
    session.answer(answer)


def _described(connection: ServedClient) -> DescribedConnection:
    facts = connection.facts
    return DescribedConnection(
        number=connection.number,
        protocol=facts.protocol,
        host=cut(connection.host, _LONGEST_TEXT),
        port=connection.port,
        client_id=cut(facts.client_id, _LONGEST_CLIENT_ID),
        software=cut(facts.software, _LONGEST_TEXT),
        software_version=cut(facts.software_version, _LONGEST_TEXT),
        connected_ms=connection.connected_ms,
        received_bytes=_known(connection.received_bytes),
        sent_bytes=_known(connection.sent_bytes),
        in_flight=connection.in_flight,
        requests=[SeenRequest(name, version) for name, version in sorted(facts.requests.items())],
    )


def _known(size: int) -> int:
    return UNKNOWN if size == UNKNOWN_BYTES else size


def cut(text: str, most: int) -> str:
    """The text, shortened so that it has at most this many bytes in UTF-8. What can't be encoded is shown as
    question marks."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
