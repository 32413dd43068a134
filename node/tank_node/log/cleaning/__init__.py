"""Removing and rewriting a log's segments, at intervals.

- `maintenance`: one round over a log, the scrubber's part included
- `retention`: which segments go, by age and size
- `compaction`: sealed segments rewritten with the newest message of each key
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
