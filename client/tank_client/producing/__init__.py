"""Producing: from a program's messages to acknowledged bundles.

- `input_columns`, `partitioner`: a program's messages, checked and in columns; their partitions
- `accumulator`, `partition_queue`: messages gathered into bundles, by partition
- `encoding`: a bundle's bytes
- `sender`: sends bundles, and handles the answers
- `delivery`, `unstored`: the outcome of each bundle, and how the program gets it
"""
