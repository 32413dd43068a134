"""The permissions of clients. Pure.

- `gate`: decides whether a client may do what its request asks
"""
