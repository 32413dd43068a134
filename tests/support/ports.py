"""Ports that are free just now."""

import random
import socket

# Below the range that outgoing connections get: while a broker is down, no client takes its port.
FIRST, LAST = 12_000, 32_000
TRIES = 1_000


def free_port() -> int:
    """A TCP port on loopback that nobody listens on, and that nobody gets without asking for it."""
    chance = random.SystemRandom()
    for _ in range(TRIES):
        port = chance.randrange(FIRST, LAST)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no free port from {FIRST} to {LAST} on loopback")
