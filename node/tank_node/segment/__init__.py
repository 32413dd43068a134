"""The files of a log: segments, their records, and the batches in them.

- `segment`, `index`, `record`: a segment's two files, the search in its index, an index record's 64 bytes
- `open_files`: descriptors opened on demand, and a bound on them
- `segments`: all segments of one log
- `reading`, `cursors`: the bytes that answer a read, and where the next read goes on
- `batch_format`, `batch_formats`, `tank_bundles`, `kafka_batches`: what a log must know of its
  batches' format
- `produced_batch`: judging a producer's record batch by the settings of its topic
- `read_back`, `scrub`: checking stored batches against their records
- `rewrite`, `swap`: writing a segment anew, putting it in place of the old one, removing a segment
- `errors`: what a log raises
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
