"""The broker's connection to the controllers, and its copy of the cluster's metadata.

- `link`: the interface through which the broker's other rooms ask the controllers
- `view`: the copy of the metadata
- `stream`: the conversation with the controller that leads, without I/O; its parts:
  - `registration`: the command by which the broker registers
  - `controller_choice`: which controller is tried, and when
  - `heartbeats`: when heartbeats are due, and how long the controller has been silent
  - `view_updates`: the controllers' updates, put into the view
  - `requests`, `pending`: the broker's requests, and those that have no answer yet; `answers`: what all
    have in common
- `channel`, `secret`: gRPC, and the proof that the broker knows the cluster's secret
- `producer_ids`: the producer ids that this broker may give out

Rooms, each with its view, link and requests:

- `iggy`: the names of Iggy's clients
- `users`: users and their rights
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
