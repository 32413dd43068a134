"""Fast writers: byte for byte what the general encoder makes of the same values, in every layout they have.

The values come from the definitions, so that a new writer is compared without a change here. What is still
laid out by hand is compared here, too.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.names import snake_case
from tank_compiler.schema.schema import (
    Array,
    Bytes,
    FastWriter,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Scalar,
    Struct,
    Text,
)
from tank_compiler.tools.interpreter import ValueScope, is_present, mistakable
from tank_protos import bundle
from tank_protos.generated import tank
from tank_protos.generated.tank import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopic,
    fast_writers,
)
from tank_protos.storage.produce_run import BEFORE_PREFIX, ProduceRun, failed
from tank_protos.wire.framing import frame_of

ROOT = Path(__file__).parents[2]
PROTOCOL = load_protocol(
    "tank", [(path.name, path.read_text()) for path in (ROOT / "protos/tank").glob("*.json")]
)
MESSAGES = [message for message in PROTOCOL.messages if message.fast_writers]
FRAMES = [
    (message, writer) for message in MESSAGES for writer in message.fast_writers if writer.known is not None
]
ENOUGH: Final = 30
"""So many times at least each writer is compared."""
ROUNDS: Final = 400

BY_HAND: Final[Mapping[str, Callable[..., bytes]]] = {
    # tank_node.tank.produce holds a byte for each result, and this is all of it.
    "ProduceResult": lambda error: bytes((error,)),
}
"""What writes the layout of a struct, where that is not generated."""

Values = dict[str, Any]


class Drawing:
    """Draws values for a message; those that conditions compare often, and the ends of each place."""

    def __init__(
        self, message: Message, seed: int, *, ones: bool = False, chosen: Mapping[str, int] = {}
    ) -> None:
        self._random = random.Random(seed)
        self._message = message
        self._ones = ones
        self._chosen = chosen
        self._mistakable = mistakable(message)

    def struct(self, kind: Struct, outer: ValueScope | None = None) -> Values:
        values: Values = {field.name: 0 for field in kind.fields}
        for field in kind.fields:
            if is_present(field, 0, ValueScope(kind, values, outer)) and not field.measures:
                values[field.name] = self._field(field, ValueScope(kind, values, outer))
            else:
                values[field.name] = [] if isinstance(field.type, Array) else field.default
            extent = field.type.count if isinstance(field.type, Array) else None
            if isinstance(extent, FromField) and values[field.name]:
                values[extent.field.name] = len(values[field.name])
        return values

    def _field(self, field: Field, scope: ValueScope) -> Any:
        kind, draw = field.type, self._random
        if field.name in self._chosen and draw.random() < 0.9:
            return self._chosen[field.name]
        if isinstance(kind, Array):
            assert isinstance(kind.element, Struct)
            return [
                self.struct(kind.element, scope)
                for _ in range(1 if self._ones else draw.choice((1, 1, 2, 5)))
            ]
        if isinstance(kind, Marker):
            return draw.random() < 0.3
        if isinstance(kind, Text):
            return draw.choice(("", "a", "gold", "größe", "\udcff\udc80", "x" * 255, "é" * 127))
        if isinstance(kind, Bytes):
            size = kind.length.size if isinstance(kind.length, Fixed) else draw.choice((0, 1, 300, 70_000))
            return draw.randbytes(size)
        assert isinstance(kind, Scalar)
        value = draw.choice(
            (kind.low, 1, kind.high, draw.randint(kind.low, kind.high), *self._compared(field))
        )
        return 1 if value == self._mistakable.get(id(field), ...) else value

    def _compared(self, field: Field) -> Iterator[int]:
        for struct in self._message.structs:
            for other in struct.fields:
                for together in other.when.alternatives if other.when else []:
                    yield from (one.number for one in together if one.field is field)


def general(message: Message, values: Values) -> bytes:
    """The frame as the general encoder makes it."""
    return frame_of(_object(message.root, values))


def _object(struct: Struct, values: Values) -> Any:
    given = dict(values)
    for field in struct.fields:
        if isinstance(field.type, Array):
            assert isinstance(field.type.element, Struct)
            given[field.name] = [_object(field.type.element, one) for one in values[field.name]]
    return getattr(tank, struct.name)(**{field.python_name: given[field.name] for field in struct.fields})


def _there(struct: Struct, values: Values) -> list[Field]:
    return [field for field in struct.fields if is_present(field, 0, ValueScope(struct, values, None))]


def _writes(writer: FastWriter, struct: Struct, values: Values) -> bool:
    """Whether these values have the writer's layout."""
    there = {id(field) for field in _there(struct, values)}
    return there == {id(field) for field in struct.fields} - writer.absent and all(
        values[field.name] == writer.fixed.get(id(field), values[field.name]) for field in struct.fields
    )


def _arguments(writer: FastWriter, struct: Struct, values: Values) -> list[Any]:
    """What the writer takes of these values: all that is there, and is not the only value of its layout."""
    found = []
    for field in _there(struct, values):
        if isinstance(field.type, Array):
            if isinstance(field.type.count, Scalar):
                found.append(len(values[field.name]))
        elif not (field.measures or isinstance(field.type, Marker) or id(field) in writer.fixed):
            found.append(values[field.name])
    return found


class NoWriter(Exception):
    """No fast writer has the layout of one of these structs; the general encoder writes it."""


class Composer:
    """Puts a frame together from what the writers of its structs make, and counts them."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.used: Counter[str] = Counter()

    def frame(self, values: Values) -> bytes:
        root = self._message.root
        behind = [self._behind(field, values[field.name]) for field in _there(root, values)]
        pieces = [piece for piece in behind if piece is not None]
        return b"".join([self._piece(root, values, [len(piece) for piece in pieces]), *pieces])

    def _behind(self, field: Field, value: Any) -> bytes | None:
        """What the caller of a writer adds of a field; None: nothing."""
        if isinstance(field.type, Array):
            assert isinstance(field.type.element, Struct)
            return b"".join(self._whole(field.type.element, one) for one in value)
        return (
            bytes(value)
            if isinstance(field.type, Bytes) and not isinstance(field.type.length, Fixed)
            else None
        )

    def _whole(self, struct: Struct, values: Values) -> bytes:
        behind = [self._behind(field, values[field.name]) for field in _there(struct, values)]
        return b"".join([self._piece(struct, values, []), *(piece for piece in behind if piece is not None)])

    def _piece(self, struct: Struct, values: Values, sizes: Sequence[int]) -> bytes:
        for writer in self._message.fast_writers:
            if writer.struct is struct and writer.known is None and _writes(writer, struct, values):
                self.used[writer.name] += 1
                given = [
                    one
                    for one in _arguments(writer, struct, values)
                    if not (struct is self._message.root and isinstance(one, bytes))
                ]
                made: bytes = getattr(fast_writers, snake_case(writer.name))(*given, *sizes)
                return made
        if struct.name not in BY_HAND:
            raise NoWriter
        return BY_HAND[struct.name](*(values[field.name] for field in _there(struct, values)))


def _composable(message: Message) -> bool:
    return any(writer.known is None for writer in message.fast_writers)


@pytest.mark.parametrize("message", [*filter(_composable, MESSAGES)], ids=lambda message: message.root.name)
def test_a_frame_of_fast_writers_is_that_of_the_encoder(message: Message) -> None:
    composer = Composer(message)
    for seed in range(ROUNDS):
        values = Drawing(message, seed).struct(message.root)
        with suppress(NoWriter):
            assert composer.frame(values).hex() == general(message, values).hex()
    for writer in message.fast_writers:
        assert writer.known is not None or composer.used[writer.name] >= ENOUGH, writer.name


@pytest.mark.parametrize(("message", "writer"), FRAMES, ids=[writer.name for _, writer in FRAMES])
def test_a_fast_frame_is_that_of_the_encoder(message: Message, writer: FastWriter) -> None:
    compared = 0
    for seed in range(ROUNDS):
        values = Drawing(message, seed, ones=True, chosen=writer.values).struct(message.root)
        made = _fast_frame(message, writer, values)
        if made is not None:
            assert made.hex() == general(message, values).hex()
            compared += 1
    assert compared >= ENOUGH


def _fast_frame(message: Message, writer: FastWriter, values: Values) -> bytes | None:
    """The frame; None: the values have another layout than the writer's."""
    assert writer.known is not None
    known: list[Any] = []
    told: list[Any] = []
    rest = b""
    struct: Struct | None = message.root
    while struct is not None:
        if not _writes(writer, struct, values):
            return None
        inner: Struct | None = None
        here = values
        for field in _there(struct, here):
            value = here[field.name]
            if isinstance(field.type, Array):
                assert isinstance(field.type.element, Struct)
                inner, values = field.type.element, value[0]
            elif field in writer.known:
                known.append(value)
            elif isinstance(field.type, Bytes) and not isinstance(field.type.length, Fixed):
                rest = value
            elif not (field.measures or isinstance(field.type, Marker) or id(field) in writer.fixed):
                told.append(value)
        struct = inner
    sizes = [len(rest)] if isinstance(message.root.fields[-1].type, Bytes) else []
    head: bytes = getattr(fast_writers, writer.name)(*known).frame(*told, *sizes)
    return head + rest


def test_each_writer_is_compared() -> None:
    compared = {
        snake_case(writer.name) if writer.known is None else writer.name
        for message in MESSAGES
        for writer in message.fast_writers
    }
    assert compared == set(fast_writers.__all__)


@pytest.mark.usefixtures("kernel")
def test_what_a_run_answers_is_that_of_the_encoder() -> None:
    """`tank_protos.storage.produce_run` writes answers by hand, many in one piece."""
    numbers = (0, 1, 2, 2**31, 2**32 - 1)
    batch = bundle.as_batch(bundle.encode([b"x"], timestamps=5, codec=bundle.Codec.NONE))
    topics = [ProduceTopic("gold", [ProducePartition(3, batch)])]
    requests = [frame_of(ProduceRequest(2, number, "client", 0, 0, topics)) for number in numbers]
    data = bytearray(b"".join(requests))
    prefix = requests[0][BEFORE_PREFIX : -len(batch)]
    answers = ProduceRun().find(data, memoryview(data), 0, len(data), prefix, len(numbers), len(batch))
    assert answers == b"".join(frame_of(ProduceResponse(number, [ProduceResult(0)])) for number in numbers)
    for error in set(range(256)) - {0xFC}:
        refused = b"".join(frame_of(ProduceResponse(number, [ProduceResult(error)])) for number in numbers)
        assert failed(answers, error) == refused
