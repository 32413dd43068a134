"""Requests of consumer groups; `coordinators` does what they ask for.

- `find_coordinator`: the broker that coordinates a group
- `join_group`, `sync_group`, `heartbeat`, `leave_group`: members that share partitions out among themselves
- `consumer_group_heartbeat`: members whose coordinator does that
- `offset_commit`, `offset_fetch`: how far groups have read; `commit_forms`: by commits of a learned form
- `list_groups`, `describe_groups`, `consumer_group_describe`, `delete_groups`, `offset_delete`: for
  administration clients
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
