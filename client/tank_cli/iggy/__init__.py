"""`tank iggy`: what Iggy's clients see of the cluster, and who they are.

- `commands`: the group, and its table of commands
- `user`, `token`: users, and their personal access tokens
- `passwords`: where a password comes from; `rights`: permissions as text
"""
