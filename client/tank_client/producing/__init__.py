"""Producing: from a program's messages to acknowledged bundles.

- `input_columns`, `partitioner`: a program's messages, checked and in columns; their partitions
- `accumulator`, `partition_queue`: messages gathered into bundles, by partition
- `topic_format`, `encoding`: what a topic's stored format takes; a bundle's bytes, or a record batch's
- `sender`: sends bundles, and handles the answers
- `delivery`, `unstored`: the outcome of each bundle, and how the program gets it
"""
