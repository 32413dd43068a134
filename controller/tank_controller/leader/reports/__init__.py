"""What an operator is shown, and warned of.

- `overview`, `report`: the state of the cluster, in short and whole
- `checks`: what deserves a warning
- `iggy_names`: topics with the names that Iggy's clients know
"""
