"""A broker node: sockets, sessions, partitions and their logs."""
