"""Conversations: one module a protocol. Frames in, calls to the broker, answers out; no I/O."""
