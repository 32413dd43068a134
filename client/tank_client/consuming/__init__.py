"""Consuming: fetches under way, the fetched batches, and the position in each partition.

- `fetcher`: keeps fetches under way for all partitions
- `fetch_state`: the position in each partition, and how an answer changes it
- `reading_plan`: what a program asks of a consumer; `start_places`: where it begins
- `held_partitions`, `membership`: a member of a group as pure decisions; `member_loop` sends its heartbeats,
  and `shared_partitions` reads what the group assigned
- `batch`: messages of one partition, as columns; `chunk_readers`: reads bundles and record batches
"""
