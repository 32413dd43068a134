"""Raft as a pure core: messages and ticks in, `RaftReady` out. Read `core` first; `raft_node.driver` runs it.

- `core`: `step`, `tick` and `propose`; `state`: what a node is now; `settings`: the bounds
- `messages`, `log`, `errors`: the messages between nodes, and their durable state
- `election`, `quorum`: elections, and the answer of a majority
- `replication`, `progress`, `snapshots`: how the log comes to the others
- `membership`, `birth`: which nodes belong to the cluster, and how it begins
- `reads`: reads that are as fresh as writes
- `recollection`, `recollected`: what a restarted node may have promised and forgotten
"""
