"""Requests that read records, and where they stand.

- `fetch`: records, or a wait for some; `fetch_read`, `partition_read`: what is found; `fetch_answer`: its
  bytes
- `fetch_sessions`, `fetch_context`: what clients fetch again and again; `fetch_forms`: by requests of a
  learned form
- `bundle_converter`: bundles as record batches
- `list_offsets`: the ends of partitions, and records by their times; `offset_for_leader_epoch`, `epoch_ends`:
  where epochs end
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
