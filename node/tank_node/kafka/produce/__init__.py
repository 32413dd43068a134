"""Requests that append records.

- `produce`: batches are appended; `produce_forms`: by requests of a learned form; `produce_answer`: their
  results
- `produced_records`: what is checked of a batch, and converted; `request_room`: what the batches of a request
  may cost
- `init_producer_id`: ids for idempotent producers
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
