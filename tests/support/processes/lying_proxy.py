"""A proxy in front of a broker that changes its answers: for tests of programs that must detect that."""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator

HEADER_BYTES = 5

Lie = Callable[[bytes], bytes]
"""A frame of the broker to what the client gets instead; b"" closes the connection."""


@contextlib.contextmanager
def lying_proxy(port: int, lie: Lie) -> Iterator[int]:
    """Listens on loopback and passes everything on to the broker on `port`; yields its own port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_serve, args=(client, port, lie), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.close()


def _serve(client: socket.socket, port: int, lie: Lie) -> None:
    with client, socket.create_connection(("127.0.0.1", port)) as broker, contextlib.suppress(OSError):
        pending = b""
        while True:
            for ready in select.select([client, broker], [], [])[0]:
                data = ready.recv(1 << 20)
                if not data:
                    return
                if ready is client:
                    broker.sendall(data)
                    continue
                pending += data
                while (end := _frame_end(pending)) is not None:
                    frame, pending = lie(pending[:end]), pending[end:]
                    if not frame:
                        return
                    client.sendall(frame)


def _frame_end(pending: bytes) -> int | None:
    if len(pending) < HEADER_BYTES:
        return None
    end = HEADER_BYTES + int(struct.unpack_from("<I", pending, 1)[0])
    return end if end <= len(pending) else None
