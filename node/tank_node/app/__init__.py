"""A broker's process: it builds all other rooms, runs them, and stops them in order.

- `process`, `cluster_process`: a broker alone, and a broker of a cluster
- `config`, `options`: the configuration
- `ports`: the sockets of the broker's addresses
- `readiness`: when a broker counts as ready after its start
- `leave`, `leave_calls`, `stop`: the orderly stop
- `zone`: the broker's rack, taken from Kubernetes
- `iggy_serving`: what serves Iggy's clients; `host_facts`: the figures of the process and its machine;
  `snapshot_maker`, `recent_log`: files for diagnosis, and the log lines in them
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
