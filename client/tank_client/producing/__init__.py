"""Producing: from a program's messages to acknowledged bundles.

- `input_columns`, `partitioner`: what a program gives, checked and in columns; its partitions
- `accumulator`, `partition_queue`: messages gathered into bundles, by partition
- `encoding`: a bundle's bytes
- `sender`: sends bundles, and judges the answers
- `verdict`, `outcomes`, `unstored`: what became of each bundle, and who learns it
"""
