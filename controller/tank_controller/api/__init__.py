"""The controllers' HTTP API for operators.

- `http`: the HTTP port, with /metrics, /healthz, /readyz and the API below /api/v1
- `routes`: requests to operations: sizes, times, errors
- `operations`, `fields`, `document`: the table of operations, what each takes, and OpenAPI made of it
- `reads`, `changes`: what the operations do
- `leader`: the way to the controller that leads
- `access`: who may use it
- `errors`: what a refused request is answered with
- `metrics_collector`: the controller's metrics for Prometheus
"""
