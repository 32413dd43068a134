"""What proves to a controller who somebody is.

- `trust`: the proof of the cluster's secret, for gRPC
- `api_token`: the token of the HTTP API
"""
