"""The node's sockets, served in ticks: accepting, receiving, sending, dialling.

- `server`: the event loop's ticks
- `loop`: asyncio on the same epoll
- `listener`, `acceptor`: an address with its protocol, and the socket that accepts there
- `transport`, `connection`, `connections`: a socket, one connection, all of them
- `receiver`, `memory`: receiving, and the bound on the memory of all connections
- `dialer`: connections that the node makes to other brokers
- `timers`: deadlines, heartbeats, maintenance
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
