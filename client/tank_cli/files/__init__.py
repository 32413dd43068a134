"""`tank log`: a data folder read without a broker, and without changing a byte.

- `commands`: dump and verify
- `reader`, `names`: partitions, batches and faults; topics' names
- `contents`: the messages in batches of either format
"""
