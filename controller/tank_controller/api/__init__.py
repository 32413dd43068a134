"""The controllers' HTTP API for operators.

- `http`: the HTTP port, with /metrics, /healthz, /readyz and the API below /api/v1
- `routes`: what runs each operation
- `operations`, `document`: the table of operations, and OpenAPI made of it; `names`: their names
- `iggy`: the operations for Iggy's clients
- `reads`, `changes`: what the operations do
- `leader`: calls of the controller that leads
- `errors`: the answers to refused requests
- `metrics_collector`: the controller's metrics for Prometheus
"""
