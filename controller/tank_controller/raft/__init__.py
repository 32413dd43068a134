"""Raft, as a pure core: messages and ticks in, `Ready` out. Read `core` first; `raft_node.driver` runs it.

- `core`: `step`, `tick` and `propose`; `state`: what a node is now; `settings`: the bounds
- `messages`, `log`, `errors`: what nodes tell each other and keep
- `election`, `quorum`: how a leader comes to be, and what a majority says
- `replication`, `progress`, `snapshots`: how the log comes to the others
- `membership`, `birth`: which nodes belong to the cluster, and how it begins
- `reads`: reads that are as fresh as writes
- `recollection`, `recollected`: what a restarted node may have promised and forgotten
"""
