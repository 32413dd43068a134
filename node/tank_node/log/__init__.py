"""One partition's log on disk: segments, index, recovery, retention, compaction, flushing."""
