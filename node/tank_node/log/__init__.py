"""One partition's log on disk: segments, index, recovery, retention, compaction, flushing."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
