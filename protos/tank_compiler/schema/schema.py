"""The schema of a checked definition: messages, structs, fields and their types."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from tank_compiler.schema.errors import Place


class Kind(Enum):
    """The kind of a message. Each kind has its own ids, because a request and its response share one."""

    REQUEST = "request"
    RESPONSE = "response"
    DATA = "data"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, ends included; open when `high` is None."""

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
        """The highest version of a range that is not open."""
        assert self.high is not None, "a message's versions have an end: the loader checks it"
        return self.high

    def __contains__(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    @property
    def in_words(self) -> str:
        """`version 3`, `versions 0-2`, `versions 1+`."""
        return f"version {self}" if self.low == self.high else f"versions {self}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of fixed size. `code` is its letter in the struct module; `low` and `high` are an integer's
    bounds."""

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
"""A uuid of sixteen bytes, which are `bytes` in Python, too: cheap to compare, hash and copy."""
SCALARS: Final = INTEGERS | {"float32": FLOAT32, "float64": FLOAT64, "bool": BOOL, "uuid": UUID}

VARINT_MAX: Final = (1 << 32) - 1
FLOAT32_MAX: Final = ((1 << 24) - 1) << 104
"""The largest finite value of a float32: an integer, like the bounds of other places."""


@dataclass(frozen=True, slots=True)
class Varint:
    """An unsigned 32-bit LEB128 number."""


@dataclass(frozen=True, slots=True)
class Compact:
    """A length or count in Kafka's flexible versions: a varint of the length + 1; 0 is null."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A length or count as in Kafka: Compact in flexible versions, else the signed `scalar`, where -1 is
    null.

    `layouts` replaces it by one of the two.
    """

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Rest:
    """A length or count that isn't on the wire: the value takes the rest of the payload."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A length that the definition states, in bytes."""

    size: int


@dataclass(slots=True)
class FromField:
    """A length or count that an earlier integer field of the same or an enclosing struct holds."""

    field: "Field"


Extent: TypeAlias = Scalar | Varint | Compact | Prefix | Rest | Fixed | FromField
"""The ways in which a reader learns a length or a count."""

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
        """The element's struct, when it has map keys by which the list finds elements; else None."""
        found = self.element
        return found if isinstance(found, Struct) and found.keys else None


@dataclass(slots=True)
class Struct:
    """A group of fields that becomes one dataclass."""

    name: str
    about: str
    place: Place
    versions: Versions
    """The versions of the message in which the struct can occur."""
    fields: list["Field"] = field(default_factory=list)
    keeps_tags: bool = False
    """Whether any version has tagged fields, so that the class has a place for unknown ones."""
    is_message: bool = False
    """Whether the struct is a message of type `data` with a module of its own, which defines its class."""
    has_tags: bool = False
    """Whether tagged fields end the struct on the wire. Only set in layouts, because it depends on the
    version."""

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
"""A default value. The empty text stands for an empty list, empty bytes, or a struct; a uuid is its bytes."""


@dataclass(slots=True)
class Field:
    """A field of a struct.

    `default` is None only for null; `python_name` is unique in the struct.
    """

    name: str
    python_name: str
    type: Type
    about: str
    place: Place
    versions: Versions | None = None
    """The versions that have the field; None: all versions of its struct."""
    nullable: Versions | None = None
    is_optional: bool = False
    """Whether the field is nullable in some version, so that the class's attribute may be None."""
    default: DefaultValue = None
    when: "FieldCondition | None" = None
    measures: list["Field"] = field(default_factory=list)
    flexible: Versions | None = None
    """The versions in which lengths in the field are compact; None: none."""
    tag: int | None = None
    tagged: Versions | None = None
    """The versions in which the field is tagged; always together with a tag."""
    is_ignorable: bool = False
    """Whether the encoder may drop a value silently in versions that don't have the field."""
    is_key: bool = False
    """Whether a list finds its elements by this field."""
    entity_type: str = ""
    """The kind of object that the value names, for the reference."""
    is_counted: bool = False
    """Whether the list's elements can be counted before any is decoded."""
    is_absent: bool = False
    """Whether the field is not on the wire in this layout; only set in layouts."""


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
    """The test `field operator number`. BITS is true when the field has at least one of the number's bits."""

    field: Field
    operator: Operator
    number: int


@dataclass(slots=True)
class FieldCondition:
    """A condition: true when all comparisons of any one alternative are true."""

    text: str
    alternatives: list[list[Comparison]]


@dataclass(slots=True)
class FastWriter:
    """A generated writer for one layout of a struct, which needs no objects of messages."""

    name: str
    """In CamelCase."""
    struct: Struct
    """The struct to write. For the message's root the frame's head is written, too."""
    values: dict[str, int]
    """The values, by field name, that choose the layout."""
    absent: set[int]
    """The identities of the fields that this layout doesn't have."""
    fixed: dict[int, int]
    """The fields that can have only one value in this layout: their values, by the field's identity."""
    known: list[Field] | None
    """None: the writer writes a struct up to its list, whose elements the caller adds. Else it writes a whole
    frame with one element in each list, and these fields are the same in many frames."""


@dataclass(slots=True)
class Message:
    """A message: its root struct, its id and its versions."""

    id: int | None
    """None: the message has no frame or request of its own (headers, data inside other messages)."""
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
    """The versions with compact lengths and tagged fields; None: there are none."""
    deprecated: Versions | None = None
    is_latest_unstable: bool = False
    """Whether the highest version may still change."""
    listeners: tuple[str, ...] = ()
    """The servers that take the request, for the reference."""
    id_type: Scalar = INTEGERS["uint8"]
    """The type of the id in a frame's header."""
    fast_writers: list[FastWriter] = field(default_factory=list)
    has_api_key: bool = False
    """The id is a key of Kafka's requests, not that of a frame."""


@dataclass(slots=True)
class Protocol:
    """All messages of a folder, by id, requests before responses."""

    name: str
    messages: list[Message]
    removed: list["Removed"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Removed:
    """A message without any version left, whose id must not be used again."""

    name: str
    id: int | None
    kind: Kind
    place: Place
