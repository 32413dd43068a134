"""A name service for the processes of a network namespace: small, on UDP, well or away as a test wants it."""

import socket
import subprocess
import threading
from enum import Enum
from pathlib import Path

ADDRESS = "127.0.0.1"
ZONE = "tank.test"
"""Every name in it has an address."""
_A, _HEADER_BYTES = 1, 12
_ANSWERED, _FAILED, _NO_SUCH_NAME = 0x8580, 0x8582, 0x8583


class Mood(Enum):
    """How the name service is."""

    WELL = "well"
    SILENT = "silent"
    """It says nothing, as one that is gone."""
    FAILING = "failing"
    """SERVFAIL, as one that is cut off from those that know."""


class NameService(threading.Thread):
    """Answers on port 53 of the loopback until the process ends."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.mood = Mood.WELL
        self.addresses: dict[str, str] = {}
        """Of names that are not at 127.0.0.1."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((ADDRESS, 53))

    def run(self) -> None:
        while True:
            query, asker = self._socket.recvfrom(4096)
            if self.mood is not Mood.SILENT:
                self._socket.sendto(self._answer(query), asker)

    def _answer(self, query: bytes) -> bytes:
        """What a query for one name is answered: an IPv4 address to those of the zone that want one."""
        labels: list[str] = []
        at = _HEADER_BYTES
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode().lower())
            at += 1 + size
        name, question = ".".join(labels), query[_HEADER_BYTES : at + 5]
        wanted = int.from_bytes(query[at + 1 : at + 3], "big")
        flags = _ANSWERED if name.endswith("." + ZONE) else _NO_SUCH_NAME
        flags = _FAILED if self.mood is Mood.FAILING else flags
        has_address = flags == _ANSWERED and wanted == _A
        counts = (1, int(has_address), 0, 0)
        head = query[:2] + flags.to_bytes(2, "big") + b"".join(count.to_bytes(2, "big") for count in counts)
        address = socket.inet_aton(self.addresses.get(name, ADDRESS))
        record = b"\xc0\x0c" + b"\0\1" + b"\0\1" + bytes(4) + b"\0\4" + address
        return head + question + (record if has_address else b"")


def use(folder: Path) -> NameService:
    """Has this process' mount and network namespaces use a name service of their own. They must be its own,
    and it must have made no lookup yet."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, content in (
        ("resolv.conf", f"nameserver {ADDRESS}\n"),
        ("nsswitch.conf", "hosts: files dns\n"),
    ):
        (folder / name).write_text(content)
        system = Path("/etc", name).resolve()
        subprocess.run(["mount", "--bind", str(folder / name), str(system)], check=True)
    service = NameService()
    service.start()
    return service
