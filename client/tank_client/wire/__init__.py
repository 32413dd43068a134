"""Connections to brokers: bytes, sockets, requests and their answers.

- `connection`: the protocol of one connection, without I/O
- `sockets`: opens all sockets
- `transport`, `hosts`: requests over a socket, and addresses of names
- `operations`, `data_operations`, `topic_operations`, `state_operations`, `group_operations`: requests and
  their answers
"""
