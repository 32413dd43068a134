"""The node's sockets, served in ticks: accepting, receiving, sending, dialling.

- `server`: the event loop's ticks
- `loop`: asyncio on the same epoll
- `doors`, `listener`: where connections come in
- `receiver`, `connection`: bytes in, bytes out
- `dialer`: connections that the node makes
- `timers`: deadlines, heartbeats, maintenance
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
