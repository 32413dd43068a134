"""`tank bench`: a broker measured through the client.

- `commands`: produce, consume, latency
- `figures`: rates and latencies, and how they are shown
"""
