"""Which broker a request goes to, and when it is sent again.

- `calls`: carries out operations, with retries and deadlines
- `routes`, `leader_finder`, `seeking`: which broker leads a partition
- `by_leader`: questions about many partitions, put to their leaders
- `pool`: one connection for each broker
- `backoff`: waits between attempts
"""
