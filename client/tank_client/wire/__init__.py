"""Connections to brokers: bytes, sockets, and what requests and answers mean.

- `connection`: the protocol of one connection, without I/O
- `transport`, `hosts`: sockets, and addresses of names
- `operations`, `data_operations`, `topic_operations`, `state_operations`: requests and their answers
"""
