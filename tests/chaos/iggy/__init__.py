"""Iggy's stock client in the load of a run, which knows the log by its stream alone.

- `program`: sends and polls with the package `apache-iggy`, in a process of its own that has it
- `clients`: these processes as clients of the load
- `stream`: the names that both know
"""
