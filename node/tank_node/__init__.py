"""A broker node: sockets, sessions, partitions and their logs.

From the top: `app` builds everything; `server` has the sockets; `tank` speaks the protocol of clients,
`peers` that of brokers; `broker` has the partitions, `partition` one of them; `replication` decides what
followers get; `cluster` is the line to the controllers; `store` is the data folder, `log` one partition's
messages in it; `monitoring` shows all of it.

What all rooms stand on:

- `session`, `frame_session`, `output`: what a connection talks through, and what it hands to the server
- `dialer`: how other brokers are reached, as an interface
- `limits`: every bound, with its reason
- `clock`, `disk`: time and files as interfaces, with the machine's own behind them; `volume`: whether there
  is room
- `metrics`, `refusal_log`: what is counted, and what is refused again and again
- `kernel`, `version`, `surroundings`: which form of the code runs, of which version, beside which processes
- `__main__`: `tank-node`
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
