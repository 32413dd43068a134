"""Plays the frames of a client that is in no package registry: `python frames.py SCRIPT HOST PORT`.

SCRIPT is the name of a file in `tests/iggy_clients/frames`. Prints a line of JSON for each of its steps: its
name, and what was wrong; empty: nothing.
"""

import json
import socket
import struct
import sys
from pathlib import Path

from tests.support.iggy.script import Exchange, load

SCRIPTS = Path(__file__).parents[1] / "frames"
ANSWER_S = 60.0
"""The longest that an answer may take."""
_HEAD = struct.Struct("<II")


def answered(connection: socket.socket, exchange: Exchange) -> tuple[int, bytes]:
    """Sends a request; returns the status and the payload of its answer, which is read as the client in Go
    does: the head, and by one more read the payload. Raises ConnectionError when the connection has ended."""
    connection.sendall(exchange.request.classic_request())
    head = connection.recv(_HEAD.size)
    if len(head) < _HEAD.size:
        raise ConnectionError("the connection has ended")
    status, size = _HEAD.unpack(head)
    return status, connection.recv(size) if size else b""


def wrong(connection: socket.socket, exchange: Exchange) -> str:
    """What is wrong with an answer; empty: nothing."""
    wanted = exchange.answer
    try:
        status, payload = answered(connection, exchange)
    except OSError as error:
        return f"{wanted.place}: {type(error).__name__}: {error}"
    if status != wanted.code:
        return f"{exchange.request.place}: status {status}, where {wanted.code} is wanted"
    return "" if wanted.matches(payload) else f"{wanted.place}: {payload.hex()}"


def main() -> None:
    """See the module."""
    exchanges = load(sys.argv[1], SCRIPTS)
    with socket.create_connection((sys.argv[2], int(sys.argv[3])), timeout=ANSWER_S) as connection:
        for step in dict.fromkeys(exchange.step for exchange in exchanges):
            found = [wrong(connection, each) for each in exchanges if each.step == step]
            print(json.dumps([step, "; ".join(filter(None, found))[:400]]), flush=True)


main()
