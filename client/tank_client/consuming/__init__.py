"""Consuming: fetches under way, what they bring, and the position in each partition.

- `fetcher`: keeps fetches under way for all partitions
- `fetch_state`: the position in each partition, and what an answer makes of it
- `batch`: messages of one partition, as columns
"""
