"""Runs the Raft core: disk, messages, snapshots, members.

- `driver`: persists, then sends, then applies; holds the proposals under way and the snapshot in the making
- `figures`: the counters of the driver, for the metrics
- `disk_thread`, `storage`, `files`: the disk, and the thread that waits for it
- `frames`, `records`, `replay`: the bytes of the log's files
- `wire`, `peers`: messages between controllers
- `member`, `pod_addresses`: the members of the group, and their addresses
- `ticks`: the clock's turns on the event loop
- `readiness`: when a controller that started counts as ready
"""
