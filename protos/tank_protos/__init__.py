"""What is declared once and shared by every room: messages, data formats, errors.

- `wire`: what bytes on a connection are made of; `generated`: the messages, made by `tank_compiler`
- `bundle`: the batches in which messages travel and are stored
- `storage`: batches as a node stores and pushes them
- `compiled`, `kernel`: the compiled twins of hot functions, and which of both forms runs
- `error_codes`, `feature_levels`, `topic_settings`: what brokers, controllers and clients agree on
- `cluster_secret`, `call_proof`: how processes of a cluster know each other
- `resolver`, `grpc_target`: names to addresses, also while the name service is away
- `log_lines`, `server_packages`: a server's log, and the packages that servers alone need
"""
