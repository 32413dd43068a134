"""The controller: keeps the cluster's metadata, as a pure state machine over a replicated Raft log.

From the top: `app` builds everything; `rpc` and `api` take calls by gRPC and HTTP; `k8s` speaks to
Kubernetes; `leader` does what the leading controller does; `raft_node` runs `raft`; `commands` checks and
applies the commands of the Raft log to `state`, the cluster's metadata; `security` has the proof of the
cluster's secret.

- `node`: a controller's parts, put together
- `limits`: the bounds of the state and of the controller's work
- `pods`: the pod in which a broker or a controller runs
- `__main__`: `tank-controller`
"""
