"""Names: from the definitions' CamelCase to Python's."""

import builtins
import keyword
import re
from collections.abc import Collection
from typing import Final

STRUCT_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
FIELD_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
"""A field may begin with a small letter: some of the Kafka project's do."""
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

RESERVED: Final = frozenset(
    {"decode", "read", "encode", "field", "bool", "bytes", "float", "int", "list", "str"}
    | {"classmethod", "memoryview", "tuple", "unknown_tags"}
)
"""Names that generated classes use, so that no field can have them."""

RESERVED_STRUCTS: Final = frozenset(
    {"Buffer", "ClassVar", "Final", "KeyedList", "Message", "Self", "Struct", "StructError", "UnknownTag"}
    | {"TrailingBytes", "Truncated", "UnsupportedVersion", "WireError"}
    | {"AttributeError", "IndexError", "UnicodeEncodeError"}
    | {"REQUESTS", "RESPONSES", "NOTICES"}
)
"""Names that generated modules use, so that no struct can have them."""

RESERVED_MODULES: Final = frozenset({"by_id", "headers", "fast_writers"})
"""Modules of a generated package that hold no message."""

_TAKEN_LOCALS: Final = frozenset(
    {
        "self",
        "cls",
        "payload",
        "offset",
        "version",
        "size",
        "at",
        "end",
        "out",
        "head",
        "more",
        "error",
    }
    | {"starmap", "pack", "unpack_from", "encode_varint", "read_varint", "dataclass", "field"}
    | {"check_prefix", "no_place", "unencodable", "wrong_null", "wrong_size", "wrong_length", "wrong_tag"}
    | {"wrong_mark", "check_unmarked"}
    | {"keep_unknown", "read_tag", "read_unknown", "write_tags"}
)
"""Names that generated functions use themselves, or that their modules import."""


def snake_case(name: str) -> str:
    """`ClientVersion` becomes `client_version`; `IPv4` becomes `i_pv4`, so write `Ipv4` in a definition."""
    return _WORD_START.sub("_", name).lower()


def is_python_keyword(name: str) -> bool:
    """Whether Python has no attribute, class or module of this name."""
    return keyword.iskeyword(name)


class Locals:
    """Chooses the names of a generated function's variables, each once."""

    def __init__(self, taken: Collection[str] = _TAKEN_LOCALS) -> None:
        """taken: the names that the function or its module uses already, beside Python's builtins."""
        self._taken = set(taken) | set(dir(builtins))

    def take(self, wanted: str) -> str:
        name = wanted
        while name in self._taken or keyword.iskeyword(name):
            name += "_"
        self._taken.add(name)
        return name
