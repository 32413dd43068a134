"""Ports that are free now."""

import os
import random
import socket
from collections import deque

# Below the range that outgoing connections get: while a broker is down, no client takes its port.
FIRST, LAST = (int(end) for end in os.environ.get("TANK_TEST_PORTS", "12000-31999").split("-"))
"""Both among them. Two runs of tests at once are given a range each."""
TRIES = 1_000

_given: deque[int] = deque(maxlen=1_000)
"""Those of the last minutes: who was given one may listen on it only later."""


def free_port() -> int:
    """A TCP port on loopback that nobody listens on, and that nobody gets without asking for it.

    Tests that run at once each have a part of the range: none is given what another one is about to use.
    """
    first, last = _part()
    chance = random.SystemRandom()
    for _ in range(TRIES):
        port = chance.randrange(first, last)
        if port in _given:
            continue
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.append(port)
        return port
    raise AssertionError(f"no free port from {first} to {last} on loopback")


def _part() -> tuple[int, int]:
    """As pytest numbers its workers."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    width = (LAST + 1 - FIRST) // workers
    first = FIRST + width * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return first, first + width
