"""Chooses the broker of a request, and repeats requests.

- `calls`: carries out operations, with retries and deadlines
- `routes`, `leader_finder`, `leader_search`: which broker leads a partition
- `by_leader`: requests about many partitions, split by leader
- `pool`: one connection for each broker
- `backoff`: waits between attempts
"""
