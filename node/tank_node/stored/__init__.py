"""Stored batches for sessions that make their own protocol's messages of them: appended to and read from a
partition wherever it is led.

- `stored_partitions`: what sessions call
- `outcome`, `strategy`, `results`: what they ask for, and what they are told
- `append_call`, `fetch_call`, `control_call`, `sizes_call`: one request each; `append_lines`: the order of
  appends; `leader_attempts`: the way of a request to its leader
- `forwarded`, `answers`: requests to another broker that leads, and what its answers say
- `telling`: what became of a request, as sessions are told
- `places`: whether this broker leads a partition

Rooms:

- `leader`: what the broker that leads does
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
