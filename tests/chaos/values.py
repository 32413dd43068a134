"""The values that a run writes: each unique, and long enough that a torn or mixed one shows."""

from zlib import crc32

from tests.chaos.record import Place

_SIZE = 100


def named(writer: str, place: Place, order: int) -> str:
    """A value's name, by which the record knows it."""
    return f"{writer}:{place[0]}:{place[1]}:{order}"


def content(name: str) -> bytes:
    """What is sent: the name, and bytes that follow from it."""
    return f"{name}|{_filling(name)}".encode()


def name_of(value: bytes) -> str:
    """The name of what was read; what is not as it was sent comes back as it is, which is no name."""
    name, _, filling = value.decode(errors="replace").partition("|")
    return name if filling == _filling(name) else f"spoiled {value!r}"


def _filling(name: str) -> str:
    piece = f"{crc32(name.encode()):08x}"
    return (piece * (_SIZE // len(piece)))[: max(0, _SIZE - len(name) - 1)]
