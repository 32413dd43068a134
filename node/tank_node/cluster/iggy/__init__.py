"""The names of Iggy's clients, at the controllers and in the broker's copy of the metadata.

- `view`: streams, topics and groups by their names, of which `parts` are made
- `link`: the interface through which other rooms ask the controllers; `requests`: its requests and answers
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
