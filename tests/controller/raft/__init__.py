"""Tests of Raft: parts, scripts, a simulated world, and its disk."""
