"""The controllers' HTTP API for operators.

- `http`: the HTTP port, with /metrics, /healthz, /readyz and the API below /api/v1
- `routes`: runs a request's operation, with limits on sizes and times
- `operations`, `fields`, `document`: the table of operations, what each takes, and OpenAPI made of it
- `reads`, `changes`: what the operations do
- `leader`: calls of the controller that leads
- `access`: which requests are allowed
- `errors`: the answers to refused requests
- `metrics_collector`: the controller's metrics for Prometheus
"""
