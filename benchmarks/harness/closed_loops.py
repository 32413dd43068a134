"""Closed loops: connections that send a request again and again, each as soon as the one before is answered.

In one process, without a client library: it takes little time itself, and has as many connections as wanted.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.load_generator import LoadFailed

_RECEIVE_BYTES = 1 << 18
PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What a load has done."""

    requests: int
    seconds: float
    server_s: float
    """Processor time of the server."""


class Line:
    """One connection, with `depth` requests under way; each protocol has a subclass."""

    HEAD_BYTES = 0
    """The bytes of an answer by which answers are compared: all are like the first, which is checked."""

    def __init__(self, address: tuple[str, int], frame: bytes, depth: int) -> None:
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opened()
        self.socket.setblocking(False)
        self.frame = frame
        self._unsent = memoryview(frame * depth)
        self._answer = b""
        self._received = b""
        self.answered = 0

    def opened(self) -> None:
        """Says what a client has to say first. LoadFailed."""

    def answer_bytes(self, data: bytes) -> int:
        """The size of the answer that begins with these bytes; 0: they are too few to tell."""
        raise NotImplementedError

    def check(self, answer: bytes) -> None:
        """Checks the first answer. LoadFailed."""
        raise NotImplementedError

    def send(self) -> bool:
        """Sends what can be sent. Returns whether all is."""
        try:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return not self._unsent

    def receive(self, sends_more: bool) -> int:
        """Takes answers, and begins as many further requests. Returns their number. LoadFailed."""
        data = self._received + self.socket.recv(_RECEIVE_BYTES)
        if len(data) == len(self._received):
            raise LoadFailed("the broker closed a connection")
        if not self._answer:
            size = self.answer_bytes(data)
            if not size or len(data) < size:
                self._received = data
                return 0
            self.check(data[:size])
            self._answer = data[:size]
        count, rest = divmod(len(data), len(self._answer))
        head = self._answer[: self.HEAD_BYTES]
        for at in range(0, len(data) - rest, len(self._answer)):
            if data[at : at + self.HEAD_BYTES] != head:
                raise LoadFailed("an answer of another length than the first: an error")
        self._received = data[len(data) - rest :]
        self.answered += count
        if sends_more and count:
            self._unsent = memoryview(bytes(self._unsent) + self.frame * count)
        return count


def cpu_s(pid: int) -> float:
    """Processor time of a process, all threads."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run_loops(lines: Sequence[Line], pid: int, seconds: float, most: int | None = None) -> Answered:
    """Runs the loops of open connections, and closes them. pid: the server's process. most: ends behind so
    many answers, if that is sooner. LoadFailed."""
    chosen = selectors.DefaultSelector()
    try:
        for line in lines:
            line.send()
            chosen.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        began = time.monotonic()
        answered, before = 0, cpu_s(pid)
        while time.monotonic() < began + seconds and (most is None or answered < most):
            ready = chosen.select(PATIENCE_S)
            if not ready:
                raise LoadFailed(f"no answer in {PATIENCE_S:.0f} s")
            for key, events in ready:
                line = key.data
                if events & selectors.EVENT_READ:
                    answered += line.receive(sends_more=True)
                wanted = selectors.EVENT_READ
                if not line.send():
                    wanted |= selectors.EVENT_WRITE
                if wanted != key.events:
                    chosen.modify(line.socket, wanted, line)
        return Answered(answered, time.monotonic() - began, cpu_s(pid) - before)
    finally:
        chosen.close()
        for line in lines:
            line.socket.close()
