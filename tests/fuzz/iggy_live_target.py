"""A broker as a process, over loopback: strangers of every era send bad frames to its Iggy port while two
honest clients, one of TANK's protocol and one of Iggy's, go on working.

Each stranger sends several frames at once, and some are cut off in the middle of one. The honest clients'
answers must be exactly right, and the broker's memory stays where it was when it had seen some of everything.
"""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest
from tank_protos.iggy import vsr
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3, SEED, Era, Framing
from tank_protos.iggy.identifiers import of_name
from tests.fuzz import iggy_frames
from tests.fuzz.iggy_frames import NAME, WITNESS
from tests.fuzz.live_target import LiveBroker
from tests.support.iggy.client_messages import ClientMessage
from tests.support.iggy.era_socket import EraSocket
from tests.support.iggy.iggy_line import IggyEvicted, IggyStatus
from tests.support.processes.iggy_broker import IggyBroker

CONNECTIONS: Final = 50
"""Strangers in one round."""

FRAMES_EACH: Final = 20
"""What each of them sends: the broker may close at any of them, and never sees the rest."""

FRAMES: Final = CONNECTIONS * FRAMES_EACH

WARM_ROUNDS: Final = 6
"""Rounds after which the broker has seen something of everything, and keeps what it keeps: imported handlers,
threads for passwords, buffers."""

MEMORY_GROWTH_BYTES: Final = 32 << 20
"""Between then and the end, when no stranger is connected."""

PEAK_GROWTH_BYTES: Final = 256 << 20
"""At any time: 160 MiB for all connections (limits.py), and two passwords that are checked, 19 MiB each."""

LEVELS: Final = {"tank_connections": 2.0, "tank_held_bytes": 0.0, "tank_waiting_requests": 0.0}

LIVE_CODES: Final = tuple(
    code for code in iggy_frames.CODES if code not in (IggyCode.CREATE_TOPIC, IggyCode.ADD_PARTITIONS)
)
"""A topic of 1000 partitions is no bad input, only a slow one."""

_PATIENCE_S: Final = 0.2
"""How long a stranger waits for the next answer."""

_HEADER: Final = vsr.request(bytes(16), 2, b"", code=IggyCode.PING)


def _of_size(size: int) -> bytes:
    at = iggy_frames.VSR_SIZE_AT
    return _HEADER[:at] + size.to_bytes(4, "little") + _HEADER[at + 4 :]


KNOWN_BAD: Final = (
    *(("no_iggy_client", length.to_bytes(4, "little") + bytes(4)) for length in (1, 2, 3, 0xFFFFFFFF)),
    *(("out_of_range", _of_size(size)) for size in iggy_frames.VSR_SIZES),
)
"""Frames that are too short or too long to be any: a length of 0 begins a header."""


class IggyLiveBroker(LiveBroker):
    """The process, and the two clients that must not notice anything."""

    known_bad = KNOWN_BAD
    levels = LEVELS
    process: IggyBroker

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._rounds = self._warm_bytes = 0
        self._sent: list[bytes] = []

    def _broker_over(self, data: Path, *arguments: str) -> IggyBroker:
        return IggyBroker(data, *arguments)

    @contextlib.contextmanager
    def running(self) -> "Iterator[IggyLiveBroker]":
        """As its base, with an honest Iggy client, too."""
        with super().running(), self.process.iggy() as self._iggy:
            for name in (WITNESS, NAME):
                self._iggy.tell(CreateStreamRequest(name=name))
                self._iggy.tell(CreateTopicRequest(stream=of_name(name), partitions_count=2, name=name))
            yield self

    def round(self, chance: Random) -> None:
        """CONNECTIONS strangers, and the honest clients between them; and the broker has not grown."""
        for number in range(CONNECTIONS):
            framing = chance.choice(tuple(Framing))
            self._iggy_stranger(chance, chance.choice(iggy_frames.ERAS_OF[framing]))
            if number % 10 == 0:
                self._check_service()
        self._check_service()
        self._rounds += 1
        if self._rounds == WARM_ROUNDS:
            self._warm_bytes = self.process.resident_bytes()
        grown = self._peak_bytes() - self._resident_at_start
        assert grown < PEAK_GROWTH_BYTES, f"the broker grew by {grown >> 20} MiB"

    def _iggy_stranger(self, chance: Random, era: Era) -> None:
        stranger = EraSocket(self.process.iggy_address, era)
        with contextlib.suppress(OSError, IggyStatus, IggyEvicted):
            if era is not SEED and chance.random() < 0.9:
                stranger.login()
            frames = []
            for _ in range(FRAMES_EACH):
                code, payload = iggy_frames.changed(chance, era, LIVE_CODES)
                frames.append(iggy_frames.spoiled(chance, era, stranger.request(code, payload)))
            data = b"".join(frames)
            stranger.socket.sendall(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
            if chance.random() < 0.5:
                self._hear(stranger.socket)
        self._linger(chance, stranger.socket)

    def _hear(self, stranger: socket.socket) -> None:
        """Says that nothing follows, and reads until the broker has nothing more to say."""
        stranger.settimeout(_PATIENCE_S)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(1 << 16):
            pass

    def _check_service(self) -> None:
        super()._check_service()
        value = b"record %d" % len(self._sent)
        self._iggy.send_messages(WITNESS, WITNESS, [ClientMessage(value)])
        self._sent.append(value)
        self._check_stored_of(self._iggy)

    def _check_stored_of(self, client: EraSocket) -> None:
        found = client.first_messages(WITNESS, WITNESS, count=len(self._sent) + 1)
        assert [message.payload for message in found] == self._sent

    def _peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kib] = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kib) << 10

    @property
    def _strangers_port(self) -> int:
        return self.process.iggy_port

    def _check_left_memory(self) -> None:
        if self._rounds > WARM_ROUNDS:
            grown = self.process.resident_bytes() - self._warm_bytes
            print(f"the broker grew by {grown / (1 << 20):.1f} MiB")
            assert grown < MEMORY_GROWTH_BYTES, f"the broker grew by {grown >> 20} MiB"

    def _check_stored(self) -> None:
        super()._check_stored()
        with self.process.iggy(B3) as client:
            self._check_stored_of(client)
