"""Sessions of Iggy's clients as text scripts: one for each era, in `tests/golden/iggy`.

A line is a frame: `> CODE field ...` from the client, `< STATUS field ...` from the server; with VSR framing
`> OPERATION/CODE number session field ...`. A field is its type and value: `u32:7`, `name:orders`. Behind
`=` stand values that the message must show: `= name=orders partitions_count=3`. `*` as the value of a number
means that the server chooses it, and alone that it chooses the whole payload. A line `## sends messages`
names the step that those behind it belong to. Lines are built by this file alone, from what the protocol
says.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "golden" / "iggy"
ERAS = ("S", "A1", "A2", "A3", "B1", "B2", "B3", "V11")
CLIENT = bytes(range(1, 17))

_NUMBERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "f32": "<f"}
_REJECTED = 1


@dataclass
class Frame:
    """One line of a script."""

    place: str
    code: int
    """The command, or the status of an answer."""
    payload: bytes
    operation: int = 0
    number: int = 0
    session: int = 0
    free: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of the payload that the server chooses."""
    is_free: bool = False
    """Whether it chooses the whole payload."""
    shows: dict[str, str] = field(default_factory=dict)

    def classic_request(self) -> bytes:
        """The whole frame of a classic client."""
        return struct.pack("<II", 4 + len(self.payload), self.code) + self.payload

    def vsr_request(self) -> bytes:
        """The whole frame of a VSR client."""
        head = bytearray(256)
        struct.pack_into("<I", head, 48, 256 + len(self.payload))
        head[60] = 5
        head[128:144] = CLIENT
        struct.pack_into("<QB7xQII", head, 168, self.number, self.operation, self.session, 0, 0)
        if self.operation == 2:
            struct.pack_into("<I", head, 196, self.code)
        return bytes(head) + self.payload

    def matches(self, payload: bytes) -> bool:
        """Whether the payload of an answer is this one, but for what the server chooses."""
        if self.is_free:
            return True
        if len(payload) != len(self.payload):
            return False
        mine, theirs = bytearray(self.payload), bytearray(payload)
        for begin, end in self.free:
            mine[begin:end] = theirs[begin:end] = bytes(end - begin)
        return mine == theirs


@dataclass
class Exchange:
    """A request and its answer."""

    request: Frame
    answer: Frame
    step: str = ""
    """What the client does there; empty: the script has no steps."""


def _field(text: str) -> tuple[bytes, bool]:
    """A field's bytes, and whether the server chooses them."""
    kind, _, value = text.partition(":")
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        if value == "*":
            return bytes(struct.calcsize(form)), True
        number = float(value) if kind == "f32" else int(value, 0)
        return struct.pack(form, number), False
    raw = value.encode()
    if kind == "u128":
        return (bytes(16), True) if value == "*" else (int(value, 0).to_bytes(16, "little"), False)
    if kind == "id":
        return b"\1\4" + struct.pack("<I", int(value)), False
    if kind == "idn":
        return bytes([2, len(raw)]) + raw, False
    if kind == "name":
        return bytes([len(raw)]) + raw, False
    if kind == "s32":
        return struct.pack("<I", len(raw)) + raw, False
    if kind == "raw":
        return raw, False
    if kind == "zeros":
        return bytes(int(value)), False
    assert kind == "hex", text
    return bytes.fromhex(value), False


def _frame(place: str, line: str) -> Frame:
    fields, _, shown = line[1:].partition(" = ")
    head, *rest = fields.split()
    operation = number = session = 0
    if "/" in head:
        operation, code = (int(part) for part in head.split("/"))
        number, session = int(rest.pop(0)), int(rest.pop(0))
    else:
        code = int(head)
    payload, free = b"", []
    is_free = rest == ["*"]
    for text in [] if is_free else rest:
        data, is_chosen = _field(text)
        if is_chosen:
            free.append((len(payload), len(payload) + len(data)))
        payload += data
    shows = dict(part.split("=") for part in shown.split())
    return Frame(place, code, payload, operation, number, session, free, is_free, shows)


def load(name: str, folder: Path = FOLDER) -> list[Exchange]:
    """The exchanges of an era's script, or of another one."""
    path = folder / f"{name}.txt"
    frames, step = [], ""
    text = path.read_text().replace("\\\n", " ")
    for at, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            step = line[3:]
        elif line.startswith((">", "<")):
            frames.append((line[0], _frame(f"{path.name}:{at}: {line[:60]}", line), step))
    asked, answered = frames[::2], frames[1::2]
    assert len(asked) == len(answered)
    assert {side for side, *_ in asked} | {side for side, *_ in answered} == {">", "<"}
    return [
        Exchange(request, answer, step)
        for (_, request, step), (_, answer, _) in zip(asked, answered, strict=True)
    ]


def is_rejected(answer: Frame) -> bool:
    """Whether the answer to a framed operation is a rejection."""
    return int.from_bytes(answer.payload[:4], "little") == _REJECTED
