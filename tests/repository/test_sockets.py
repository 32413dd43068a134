"""Sockets are opened in few places, each with its reason, so that TLS has a place to go."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.repository.tree import ROOT, python_files

PARTS: Final = ("node", "controller", "protos", "client", "spark", "examples")
OPENING: Final = {"create_connection", "create_server", "open_connection", "start_server", "socketpair"}

ALLOWED: Final = {
    "client/tank_client/wire/sockets.py": "the place: all connections to brokers",
    "controller/tank_controller/api/http.py": "listens for HTTP",
    "node/tank_node/monitoring/http.py": "listens for HTTP",
    "node/tank_node/server/listener.py": "where clients and brokers come in: each gets a transport",
    "node/tank_node/server/dialer.py": "connections to other brokers: each gets a transport",
    "client/tank_cli/started.py": "plain HTTP on loopback; a startup probe must not import the client",
    "client/tank_cli/cluster/processes.py": "binds a port to see whether it is free; connects to nothing",
    "client/tank_cli/serve/demo_broker.py": "binds a port to choose a free one; connects to nothing",
}
"""Files that open sockets, with the reason."""


def openings(tree: ast.AST) -> Iterator[int]:
    """The lines of calls that make a socket. A type `socket.socket` is none."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("socket", "socket.socket") or called.rpartition(".")[2] in OPENING:
            yield node.lineno


def test_sockets_are_opened_in_few_places() -> None:
    found = {
        str(path)
        for path in python_files()
        if path.parts[0] in PARTS and any(openings(ast.parse((ROOT / path).read_text())))
    }
    assert found == ALLOWED.keys()


def test_grpc_connects_and_listens_in_one_place() -> None:
    found = {
        str(path)
        for path in python_files()
        if path.parts[0] in PARTS
        and any(name in (ROOT / path).read_text() for name in ("insecure_channel", "add_insecure_port"))
    }
    assert found == {"protos/tank_protos/grpc_channel.py"}


def test_an_opening_is_found_and_a_type_is_none() -> None:
    source = (
        "import socket\n"
        "def reads(taken: socket.socket) -> None: ...\n"
        "with socket.socket() as one: ...\n"
        "two = socket.create_connection(('a', 1))\n"
        "await loop.create_connection(make, 'a', 1)\n"
    )
    assert sorted(openings(ast.parse(source))) == [3, 4, 5]
