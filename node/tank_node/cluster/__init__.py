"""The node's line to the controllers, and its copy of the cluster's state.

- `link`: what the node may ask, as an interface
- `view`: the copy of the state
- `session`, `requests`, `pending`: the stream's messages, without I/O
- `channel`, `secret`: gRPC, and the proof of the cluster's secret
- `producer_ids`: producer ids that this broker holds
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
