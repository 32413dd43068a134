"""One partition's log on disk.

- `log`, made of `replica` and `append`: the log; `staged`: what a tick is about to write
- `segment`, `index`, `record`, `open_files`: its files
- `reading`, `scrub`: what is found and checked in them
- `producers`, `epoch_history`: what the batches say of producers and of leaders
- `pushed`, `pushing`: batches from a leader, and to followers
- `flush_work`: what an fsync round has to do
- `recovery`, with `checkpoint`; `mend`, `rewrite`, `read_back`, `swap`: after a crash, after damage
- `truncation`, `refill`, `retention`, `maintenance`, `compaction`: what goes
- `settings`, `errors`
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
