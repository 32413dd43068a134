"""TANK's protocol: frames in, calls to the broker, answers out. No I/O.

- `session`: the conversation of one connection
- `dispatch`: which handler takes which message; makes sessions
- `produce`, `produce_templates`, `forwarded_produce`, `acks`: Produce (1, 5)
- `fetch`, `fetch_fast`, `fetch_templates`, `forwarded_fetch`: Consume (2)
- `topics`, `metadata`, `extensions`, `describe_broker`, `describe_cluster`: all other messages
- `template_cache`: which learned requests are forgotten
- `end_waits`, `redirect`, `errors`: what several of them need
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
