"""`tank cluster`: a cluster on this machine, and the operator's view of any cluster.

- `commands`, `options`: the table of commands, and which cluster is meant
- `run`, `folder`, `processes`, `repair`: a cluster's processes on this machine
- `show`, `report`, `advice`: the state of a cluster, and its problems
- `change`, `controllers`: what an operator changes
- `controller_calls`, `controllers_of_brokers`: the controllers, found and asked
"""
