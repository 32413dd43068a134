"""What an operator sees of a node: health and metrics, and the small HTTP server for them.

- `health`: whether a node can do its work, and its problems
- `metrics_collector`, `health_collector`, `replication`, `groups`: families of Prometheus metrics
- `http`: the port for /metrics, /healthz and /readyz
- `iggy`: what Iggy's clients asked for, as Prometheus families
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
