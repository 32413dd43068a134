"""Iggy's protocol: sessions with its clients of all eras, and the handler of each command. No I/O, no clock.

- `session`: the conversation on one connection, and its requests under way; `dispatch`: the table of
  commands, and the making of sessions; `services`: what sessions share; `settings`: what an operator sets;
  `last_change`: what a repeat of a change is answered with
- `access`: who clients are and what they may do; `logins`: logins and their end; `users`, `tokens`: their
  administration
- `streams`, `topics`, `partitions`: what there is, and changes of it; `records`: as answers show it
- `send`, `poll`: messages; `learned`: what they need not look up again
- `offsets`: how far consumers have come; `groups`: consumers that share partitions
- `system`: pings, the cluster, figures, clients; `clients`: the open sessions; `routes`: where to read;
  `snapshots`: files for diagnosis
- `numbers`: the streams, topics and groups that requests name; `consumers`: the consumers
- `refusals`: what other rooms refuse, as Iggy's faults
- `coordinator_wait`: requests that wait for a coordinator; `waits`: short waits; `heartbeats`: clients that
  have to ping
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
