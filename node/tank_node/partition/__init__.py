"""One partition: appends, the high-water mark, its waiters, and its role as leader or follower.

- `partition`: the partition; `reach` and `refusal`: its answers when a fetch finds no messages, or an append
  is refused
- `leader`, `follower`, `roles`, `follower_reads`: its part in each role, and which role it has
- `beliefs`: leader epochs that were heard in a push before the view had them
- `acks`, `waiters`: producers and consumers that wait for the high-water mark; `found_run`: batches staged
  together
- `log_start`: deletions from the front; `numbering`: numbers in requests that have a special meaning
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
