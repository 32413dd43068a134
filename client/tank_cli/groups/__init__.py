"""Commands for consumer groups.

- `commands`, `show`, `delete`, `reset`: `tank group`
- `lag`: `tank lag`
- `progress`: positions beside the ends of partitions
- `reset_options`: what is typed for a reset
- `members`: the members of a group in words
"""
