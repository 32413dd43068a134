"""Requests for brokers, topics and leaders.

- `metadata`: what clients ask for; `metadata_answers`: answers that clients share; `topic_slices`: long
  answers, made in several turns
- `auto_creation`: topics that are created by the question for them
- `listed_brokers`: all brokers, as a client gets them; `lost_leaders`: waiting while a leader has just died
- `describe_cluster`, `describe_topic_partitions`: the same for administration clients
"""
