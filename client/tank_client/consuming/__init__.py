"""Consuming: fetches under way, the fetched batches, and the position in each partition.

- `fetcher`: keeps fetches under way for all partitions
- `fetch_state`: the position in each partition, and how an answer changes it
- `batch`: messages of one partition, as columns; `chunk_readers`: reads bundles and record batches
"""
