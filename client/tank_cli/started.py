"""`python -m tank_cli.started PORT`: waits until the process beside it has started. What startup probes run.

A probe that is answered "not yet" is a warning in Kubernetes' events, each time; one that waits is none. It
waits until /healthz answers on loopback: the logs are read. Then, for a while, until /readyz says yes: in a
normal start that is soon, and the probe of readiness finds it so the first time.

It imports little: it runs beside a process that starts.
"""

import socket
import sys
import time

STARTED_S = 45.0
"""So long one probe waits for the start; the chart's timeout is longer, and asks again."""
READY_S = 40.0
"""And so long behind that for readiness: pods that start together wait for each other's volumes and images.
A start with a lot to copy takes longer."""
ASK_EVERY_S = 0.1
ANSWER_S = 5.0


def answers(port: int, path: str) -> bool:
    """Whether the answer is 200."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as line:
            line.settimeout(ANSWER_S)
            line.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return b" 200 " in line.recv(64)
    except OSError:
        return False


def comes(port: int, path: str, within_s: float) -> bool:
    """Whether it is 200 within this time."""
    deadline = time.monotonic() + within_s
    while not (found := answers(port, path)) and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
    return found


def main(port: int) -> int:
    """The exit code: 0 when it has started, ready or not."""
    if not comes(port, "/healthz", STARTED_S):
        return 1
    comes(port, "/readyz", READY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
