"""The controller: the cluster's metadata as a pure state machine, and the journal that keeps it.

From the top: `app` builds everything; `rpc` and `api` take calls by gRPC and HTTP; `k8s` speaks to
Kubernetes; `leader` does what the leading controller does; `raft_node` runs `raft`; `state` is what the
log's commands make; `security` is the cluster's secret and tokens.

- `node`: a controller's parts, put together
- `limits`: what the state may grow to
- `pods`: which pod a broker or a controller is
- `__main__`: `tank-controller`
"""
