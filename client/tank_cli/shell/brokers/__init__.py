"""Questions that several commands have for brokers.

- `positions`: the places in partitions that users name
- `described`, `reports`: what brokers say of themselves, of one or of all
- `watch`: the same again and again
"""
