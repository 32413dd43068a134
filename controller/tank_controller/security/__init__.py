"""Proofs of identity at a controller.

- `trust`: the proof of the cluster's secret, for gRPC
"""
