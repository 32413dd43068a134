"""`python -m tank_cli.started PORT`: waits until the process of this container has started. Startup probes
run it.

Each probe that fails is a warning in Kubernetes' events, so the probe waits instead. It waits until /healthz
answers on loopback, which means that the logs are read. Then it waits for a while until /readyz answers 200,
so that in a normal start the first readiness probe succeeds.

It imports little: it runs beside a process that starts.
"""

import socket
import sys
import time

STARTED_S = 45.0
"""How long one probe waits for the start; the chart's timeout is longer, and then the probe runs again."""
READY_S = 40.0
"""How long the probe then waits for readiness: pods that start together wait for each other's volumes and
images. A start with a lot to copy takes longer.
"""
ASK_EVERY_S = 0.1
ANSWER_S = 5.0


def answers(port: int, path: str) -> bool:
    """Whether a request for this path is answered with 200."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as line:
            line.settimeout(ANSWER_S)
            line.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return b" 200 " in line.recv(64)
    except OSError:
        return False


def comes(port: int, path: str, within_s: float) -> bool:
    """Whether a request for this path is answered with 200 within this time."""
    deadline = time.monotonic() + within_s
    while not (found := answers(port, path)) and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
    return found


def main(port: int) -> int:
    """Waits; returns the exit code: 0 when the process has started, ready or not."""
    if not comes(port, "/healthz", STARTED_S):
        return 1
    comes(port, "/readyz", READY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
