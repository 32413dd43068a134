"""The view of the cluster, as the machines of groups see it.

- `view_topics`: the topics that there are; `view_groups`: Iggy's groups, and the brokers of their members
- `held_names`: groups of other clients that hold up Iggy's feature level
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
