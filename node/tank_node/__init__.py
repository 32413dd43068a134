"""A broker node: sockets, sessions, partitions and their logs.

The rooms, from the top: `app` builds everything; `api` is the HTTP API; `server` has the sockets; `tank`
speaks the protocol of TANK's clients, `kafka` that of Kafka's, `peers` that of brokers; `coordinators` has
consumer groups; `broker` has all partitions, `partition` one of them; `replication` has the rules of
replication; `cluster` is the connection to the controllers; `store` is the data folder, `log` one partition's
log in it, `segment` the log's files; `security` checks clients' rights; `monitoring` shows health and
metrics.

The modules that all rooms use:

- `session`, `frame_session`, `output`: the conversation on a connection, and the bytes that it gives to the
  server
- `dialer`, `purpose`: connections to other brokers, as an interface, and what each of them is for
- `limits`: every bound, with its reason
- `clock`, `disk`: time and files as interfaces, and their implementations; `volume`: whether the disk is full
- `metrics`, `refusal_log`: counters, and a log of refused input that repeats little
- `client_facts`, `message_names`: what is known of connected clients, and the names of TANK's messages
- `kernel`, `version`, `surroundings`: compiled or plain modules, the software's version, the cluster's
  addresses
- `__main__`: the command `tank-node`
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
