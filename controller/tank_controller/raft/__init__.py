"""Raft, as a pure core: messages and ticks in, `Ready` out. Read `core` first; `raft_node.driver` runs it."""
