"""The shell around the Raft core: disk, messages, snapshots, members.

- `driver`: persists, then sends, then applies
- `waiting`, `snapshot`, `figures`: the driver's proposals under way, its snapshot in the making, its counters
- `disk_thread`, `storage`, `files`: the disk, and the thread that waits for it
- `frames`, `records`, `replay`: the bytes of the log's files
- `wire`, `peers`: messages between controllers
- `member`, `pod_addresses`: who belongs to the group, and where
- `ticks`: the clock's turns on the event loop
- `readiness`: when a controller that started counts as ready
"""
