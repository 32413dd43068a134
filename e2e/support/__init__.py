"""What the scenarios share.

- `environment`, `images`, `kubernetes`, `nodes`: the cluster, and what runs in it
- `release`: the chart, installed
- `load`, `verdict`, `figures`: writers and readers, and what they found
- `kafka_talk`, `iggy_package`: other clients
- `waiting`: until something holds
"""
