"""Connections between brokers: replication, and requests that are forwarded.

- `connections`: which connections this broker makes to others, and when
- `connection`, `identity`: one such connection, and the brokers at its two ends
- `replicator`, `outbound`: which partition is pushed on which connection, and a connection's pushes
- `forwarder`, `forward_session`: which request is forwarded on which connection, and a connection's requests
- `inbound`: connections that other brokers make to this one
- `in_sync_proposals`, `failed_replicas`: reports to the controllers on in-sync sets and failed replicas
- `group_router`, `group_request`, `group_service`: the way of requests about groups to their coordinator, and
  what it answers; `described_groups`, `group_errors`: what our messages say of groups;
  `group_heartbeats`: members' heartbeats

`iggy`: the groups and stored offsets of Iggy's clients.
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
