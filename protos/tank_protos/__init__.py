"""Messages, data formats and errors that brokers, controllers and clients share.

- `wire`: the elements of bytes on a connection; `generated`: the messages, made by `tank_compiler`
- `bundle`: the batches in which messages travel and are stored
- `storage`: batches as a node stores and pushes them
- `users`: names, secrets and rights of the users of Iggy's clients
- `kafka`: records in the formats of Kafka's clients; `iggy`: the bytes of Iggy's clients of all eras
- `compiled`, `kernel`: compiled twins of hot functions, and the choice between them and the plain functions
- `error_codes`, `feature_levels`, `topic_settings`: what brokers, controllers and clients agree on
- `position_reset`: where a reset puts the positions of a consumer group
- `cluster_secret`, `call_proof`: how processes of a cluster authenticate to each other
- `resolver`, `grpc_target`: look names up, and keep the last addresses for times without name service
- `grpc_channel`: opens gRPC connections
- `http_api`: what the HTTP APIs of controllers and brokers share
- `log_lines`, `server_packages`: a server's log, and the packages that only servers need
"""
