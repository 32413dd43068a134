"""Proofs of identity at a controller.

- `trust`: the proof of the cluster's secret, for gRPC
- `api_token`: the token of the HTTP API
"""
