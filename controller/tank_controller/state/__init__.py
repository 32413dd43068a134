"""The cluster's state, and its forms as bytes. Pure.

- `state`, `model`, `keys`: the state and its parts
- `placement`: how replicas are spread over brokers
- `iggy`: the names of Iggy's clients
- `codec`, `snapshot_image`, `topics_image`, `view_image`, `view_parts`: the state as bytes
"""
