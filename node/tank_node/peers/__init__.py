"""Connections between brokers: replication, and requests that are forwarded.

- `identity`: who is at both ends
- `replicator`, `outbound`: a leader's connections to its followers
- `inbound`: a follower's end of them
- `forwarder`, `forward_session`: connections for forwarded requests
- `failed_replicas`: replicas that can't go on
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
