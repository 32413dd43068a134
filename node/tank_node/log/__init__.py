"""One partition's log on disk.

- `log`: the log, of five parts: the segments and cursors (`tank_node.segment`), `tail`, `producer_table`,
  `health`
- `staged`: batches that a tick is about to write; `flush_work`: the files that an fsync round syncs
- `producers`, `epoch_history`: idempotent producers, and leader epochs, by the batches in a log
- `pushed`, `pushing`: storing a leader's pushes, and reading batches to push
- `time_search`, `append_search`: finding records by their timestamps, and by the time of their append
- `refill`: emptying a log, to copy it anew from its leader
- `settings`: a log's part of its topic's settings

Rooms:

- `recovery`: opening a log after a crash, and after damage
- `cleaning`: removing and rewriting segments, at intervals
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
