"""What a definition means, after it was read and checked: messages, structs, fields and their types."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from tank_compiler.schema.errors import Place


class Kind(Enum):
    """What a message is for. A request and its response share an id; so each kind numbers for itself."""

    REQUEST = "request"
    RESPONSE = "response"
    DATA = "data"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends in it; `high` None: open."""

    low: int
    high: int | None

    def within(self, other: "Versions") -> "Versions | None":
        """The versions in both, or None."""
        low = max(self.low, other.low)
        highs = [high for high in (self.high, other.high) if high is not None]
        if highs and min(highs) < low:
            return None
        return Versions(low, min(highs, default=None))

    @property
    def high_end(self) -> int:
        """The highest version; for a range that is not open."""
        assert self.high is not None, "a message's versions have an end: the loader checks it"
        return self.high

    def __contains__(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of fixed size. `code` is its letter in the struct module; low and high bound integers."""

    name: str
    code: str
    size: int
    low: int = 0
    high: int = 0


def _integers() -> dict[str, Scalar]:
    found = {}
    for size, signed, unsigned in ((1, "b", "B"), (2, "h", "H"), (4, "i", "I"), (8, "q", "Q")):
        bits = size * 8
        found[f"int{bits}"] = Scalar(f"int{bits}", signed, size, -(1 << bits - 1), (1 << bits - 1) - 1)
        found[f"uint{bits}"] = Scalar(f"uint{bits}", unsigned, size, 0, (1 << bits) - 1)
    return found


INTEGERS: Final = _integers()
FLOAT32: Final = Scalar("float32", "f", 4)
FLOAT64: Final = Scalar("float64", "d", 8)
FLOATS: Final = (FLOAT32, FLOAT64)
BOOL: Final = Scalar("bool", "?", 1)
UUID: Final = Scalar("uuid", "16s", 16)
"""Sixteen bytes, in Python too: cheap to compare, to hash and to copy."""
SCALARS: Final = INTEGERS | {"float32": FLOAT32, "float64": FLOAT64, "bool": BOOL, "uuid": UUID}

VARINT_MAX: Final = (1 << 32) - 1
FLOAT32_MAX: Final = ((1 << 24) - 1) << 104
"""The largest finite value of a float32: an integer, like the bounds of other places."""


@dataclass(frozen=True, slots=True)
class Varint:
    """An unsigned 32-bit LEB128 number."""


@dataclass(frozen=True, slots=True)
class Compact:
    """A length or count of the Kafka project's flexible versions: a varint of one more; 0 is null."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A length or count as Kafka has it: in flexible versions Compact, else `scalar`, signed, -1 is null.

    `layouts` puts one or the other in its place.
    """

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Rest:
    """A length or count that nobody states: what is left of the payload."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A length that the definition states, in bytes."""

    size: int


@dataclass(slots=True)
class FromField:
    """A length or count that an earlier integer field of the same or an enclosing struct holds."""

    field: "Field"


Extent: TypeAlias = Scalar | Varint | Compact | Prefix | Rest | Fixed | FromField
"""How the reader knows a length or a count."""

Counted: TypeAlias = Scalar | Varint | Compact
"""An extent that stands on the wire right before the value."""


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 behind its length; bytes that are not UTF-8 survive as surrogates."""

    length: Extent


@dataclass(slots=True)
class Bytes:
    """Bytes, decoded as a slice of the payload. keep_prefix: the slice includes the length before them."""

    length: Extent
    keep_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Marker:
    """A bool that is true when `value` stands next on the wire, which is then consumed."""

    scalar: Scalar
    value: int

    def wire_form(self, *, little_endian: bool) -> bytes:
        order: Literal["little", "big"] = "little" if little_endian else "big"
        return self.value.to_bytes(self.scalar.size, order, signed=self.scalar.low < 0)


@dataclass(slots=True)
class Array:
    """Elements behind their count."""

    element: "Element"
    count: Extent

    @property
    def keyed(self) -> "Struct | None":
        """The element, when its fields with a map key make the list one that finds by them."""
        found = self.element
        return found if isinstance(found, Struct) and found.keys else None


@dataclass(slots=True)
class Struct:
    """A group of fields that becomes one dataclass."""

    name: str
    about: str
    place: Place
    versions: Versions
    """The versions of the message in which it can occur; within the message's own."""
    fields: list["Field"] = field(default_factory=list)
    keeps_tags: bool = False
    """Some version of it has tagged fields, so it has a place for unknown ones."""
    has_tags: bool = False
    """Tagged fields end it on the wire. `layouts` says so; before that it depends on the version."""

    @property
    def keys(self) -> list["Field"]:
        """The fields by which an element of a list is found."""
        return [field for field in self.fields if field.is_key]

    @property
    def collection(self) -> str:
        """The class of a list that finds such structs by their keys."""
        return f"{self.name}Collection"


Element: TypeAlias = Scalar | Varint | Text | Struct

Type: TypeAlias = Scalar | Varint | Text | Bytes | Marker | Array | Struct

DefaultValue: TypeAlias = int | float | str | bytes | bool | None
"""Empty lists, bytes and structs are the empty text; a uuid is its bytes."""


@dataclass(slots=True)
class Field:
    """A field of a struct.

    `default` is None for null only; `python_name` is unique in its struct.
    """

    name: str
    python_name: str
    type: Type
    about: str
    place: Place
    versions: Versions | None = None
    """None: it is there in every version in which its struct is."""
    nullable: Versions | None = None
    is_optional: bool = False
    """Nullable in some version, so that the class's field takes None."""
    default: DefaultValue = None
    when: "Condition | None" = None
    measures: list["Field"] = field(default_factory=list)
    flexible: Versions | None = None
    """Where its length, and what is in it, is written the compact way; None: nowhere."""
    tag: int | None = None
    tagged: Versions | None = None
    """Where it stands among the tagged fields; always with a tag."""
    is_ignorable: bool = False
    """A value that a version has no place for may be lost in silence."""
    is_key: bool = False
    """Elements of a list are found by it."""
    entity_type: str = ""
    """What kind of thing the value names: for the reference."""
    is_absent: bool = False
    """Not on the wire in this layout; only `layouts` says so."""


class Operator(Enum):
    """How a condition compares a field with a number."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    BITS = "&"


@dataclass(slots=True)
class Comparison:
    """`field operator number`; for BITS: at least one of the number's bits is set in the field."""

    field: Field
    operator: Operator
    number: int


@dataclass(slots=True)
class Condition:
    """Alternatives, each a list of comparisons that hold together: `and` binds tighter than `or`."""

    text: str
    alternatives: list[list[Comparison]]


@dataclass(slots=True)
class Message:
    """A message: the root struct and what its frame and versions are."""

    id: int | None
    """None: it has no frame or request of its own (headers, data inside of other messages)."""
    kind: Kind
    little_endian: bool
    versions: Versions
    version_field: Field | None
    root: Struct
    notes: str
    """The comment at the head of the definition."""
    structs: list[Struct]
    """All structs of the message, inner ones first, the root last."""
    flexible: Versions | None = None
    """The versions with compact lengths and tagged fields; None: none."""
    deprecated: Versions | None = None
    is_latest_unstable: bool = False
    """The highest version may still change."""
    listeners: tuple[str, ...] = ()
    """Which servers take the request: for the reference."""
    id_type: Scalar = INTEGERS["uint8"]
    """How wide the id is in a frame's header."""


@dataclass(slots=True)
class Protocol:
    """All messages of a folder, by id, requests before responses."""

    name: str
    messages: list[Message]
    removed: list["Removed"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Removed:
    """A message of which no version is left: its id must not be used again."""

    name: str
    id: int | None
    kind: Kind
    place: Place
