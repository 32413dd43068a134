"""The clients that are connected to this broker, for the HTTP API."""

from tank_node.broker.broker import Broker
from tank_node.client_facts import NO_VERSION, UNKNOWN_BYTES, ServedClient
from tank_protos.http_api.errors import Json
from tank_protos.http_api.operations import ApiRequest


def connections(broker: Broker, asked: ApiRequest) -> Json:
    """A page of the connections."""
    limit = asked.query.integer("limit")
    found = broker.clients(asked.query.integer("after"), limit + 1)
    shown = found[:limit]
    return {
        "broker_id": broker.link.view.broker_id,
        "connections": [_client(each) for each in shown],
        "next": str(shown[-1].number) if len(found) > limit else None,
    }


def _client(each: ServedClient) -> Json:
    facts = each.facts
    host = f"[{each.host}]" if ":" in each.host else each.host
    return {
        "number": each.number,
        "protocol": facts.protocol.name.lower(),
        "address": f"{host}:{each.port}" if host else None,
        "client_id": facts.client_id,
        "software": facts.software,
        "software_version": facts.software_version,
        "connected_ms": each.connected_ms,
        "received_bytes": _known(each.received_bytes),
        "sent_bytes": _known(each.sent_bytes),
        "in_flight": each.in_flight,
        "requests": [
            {"name": name, "version": None if version == NO_VERSION else version}
            for name, version in sorted(facts.requests.items())
        ],
    }


def _known(size: int) -> int | None:
    return None if size == UNKNOWN_BYTES else size
