"""What `tank-protos decode` reads where there are no frames: each header, but hardly a payload."""

from tank_compiler.schema import definition_files
from tank_compiler.tools.decode_stream import Exchange, Head, Reading, Side, documents
from tank_compiler.tools.decode_tank import TankProtocol
from tank_protos.generated.tank import StatusRequest
from tank_protos.wire.framing import frame


class CountingProtocol(TankProtocol):
    """Counts how often a payload is read."""

    reads = 0

    def read(self, payload: memoryview, head: Head, side: Side, exchange: Exchange) -> Reading:
        self.reads += 1
        return super().read(payload, head, side, exchange)


def test_noise_that_looks_like_headers_costs_no_payloads() -> None:
    protocol = CountingProtocol(definition_files.load(definition_files.shipped("tank")))
    lying = bytes.fromhex("0140000000") * 200  # id 1 with 64 bytes, at each fifth byte
    told = list(documents(protocol, memoryview(lying), None, Exchange()))
    assert "error" in told[-1]
    assert protocol.reads < 50


def test_frames_behind_noise_are_found() -> None:
    protocol = CountingProtocol(definition_files.load(definition_files.shipped("tank")))
    noise = b"\xff" * 6 + bytes.fromhex("0100100000") * 3
    frames = b"".join(frame(StatusRequest.ID, StatusRequest(7).encode())) * 2
    told = list(documents(protocol, memoryview(noise + frames + frames), Side.CLIENT, Exchange()))
    assert [one["bytes"] for one in told] == [len(noise), 9, 9, 9, 9]
    assert [one.get("message") for one in told][1:] == ["StatusRequest"] * 4
