"""A transport names the addresses of its two ends."""

import socket

from tank_node.server.transport import Transport


def test_both_ends_have_a_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), source_address=("127.0.0.2", 0))
        accepted, _ = server.accept()
    with client, accepted:
        transport = Transport(accepted)
        assert (transport.local_host(), transport.remote_host()) == ("127.0.0.1", "127.0.0.2")


def test_an_end_that_is_gone_has_none() -> None:
    with socket.socket() as unconnected:
        assert Transport(unconnected).remote_host() == ""
