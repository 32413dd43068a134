"""A broker's process: it builds the rooms below, runs them, and takes them apart.

- `process`, `cluster_process`: a broker alone, and a broker of a cluster
- `config`, `options`: the configuration
- `readiness`: when a broker that started counts as ready
- `leave`, `leave_calls`, `stop`: the orderly end
- `zone`: the broker's rack, asked of Kubernetes
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
