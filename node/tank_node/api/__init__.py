"""A broker's HTTP API: consumer groups of the whole cluster, and this broker's clients.

- `routes`: what runs each operation
- `operations`, `document`: the table of operations, and OpenAPI made of it
- `groups`, `positions`: consumer groups; their positions, the ends of partitions, and resets
- `clients`: the clients that are connected to this broker
- `inner_client`: a client of TANK's protocol within the broker's process, which the operations use
- `errors`: the answers to requests that brokers refuse
"""
