"""The controllers' gRPC services, for brokers, other controllers and tools.

- `server`: the port, with every call behind one gate
- `brokers`: the services for brokers and for other controllers
- `admin`: the service for operators' tools; `users`: what it tells of Iggy's clients' users
- `leaving`: whether a broker's process may stop
"""
