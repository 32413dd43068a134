"""Kafka's protocol: sessions with Kafka's clients, and the handler of each request. No I/O, no clock.

What all requests stand on lies here, and the requests in rooms by their subjects, one API a file.

- `session`: the conversation on one connection, and its requests under way; `dispatch`: the table of
  handlers, and the making of sessions
- `learned_forms`: requests that a connection repeats, without a decoder
- `frame_size`: frames of a wrong size; `list_slices`: lists of long answers, encoded slice by slice
- `errors`: Kafka's error codes, and the refusals of brokers, coordinators and controllers as such
- `settings`: what an operator sets
- `topic_names`: which names are valid, and which are the cluster's own
- `leaders`: who leads a partition, and where a client reaches a broker; `client_host`: a client's address
- `led`: the partition that a request names; `settling`: waiting until its leader knows its end, and
  pauses of long requests
- `topic_changes`: changes of topics, until the controllers have made them
- `authorized_operations`: what a client may do
- `api_versions`: the requests that this broker answers, in which versions
- rooms: `produce` and `fetch` move records; `metadata` shows brokers, topics and leaders; `groups`: consumer
  groups; `topics`: their administration; `configs`: settings; `users`: what there is none of yet
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
