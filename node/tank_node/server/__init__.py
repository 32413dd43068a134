"""The node's sockets, served in ticks: accepting, receiving, sending, dialling.

- `server`: the event loop's ticks
- `loop`: asyncio on the same epoll
- `listener`, `acceptor`: where connections come in
- `connection`, `connections`: one, and all that there are
- `receiver`, `memory`: bytes in, and what of them is held
- `dialer`: connections that the node makes
- `timers`: deadlines, heartbeats, maintenance
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
