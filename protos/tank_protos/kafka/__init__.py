"""Codecs for records in the formats of Kafka's clients, which know neither logs nor requests.

- `record_batch`: the header of a batch of magic 2: its checks, and the fields that a broker writes
- `records`: the records in a batch; `control_batch`: the batch that ends a transaction
- `message_set`: the message sets of clients before 2017, and their conversion to batches and back
- `transcode`: converts record batches to TANK's batches and back
- `produce_run`: many Produce requests of one form, taken in few steps
- `produced_batch`, `stored_chunk`, `stored_arrow`: what TANK's own client and Spark write and read
- `codecs`: compresses, and unpacks within bounds; `lz4_frame`, `zstd_frame`, `xxh32`: frames of two codecs
- `varint`: the integers in records; `limits`: all bounds; `errors`: the reasons for a refusal
"""
