"""Chooses the broker of a request, and repeats requests.

- `calls`: carries out operations, with retries and deadlines
- `routes`, `leader_finder`, `leader_search`: which broker leads a partition
- `by_leader`: requests about many partitions, split by leader; `position_reset`: where a reset puts positions
- `older_brokers`: what brokers of other projects are asked instead
- `pool`: one connection for each broker
- `backoff`: waits between attempts
"""
