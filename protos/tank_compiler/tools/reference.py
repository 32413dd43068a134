"""Writes the protocol reference: an index, and a page for each frame id with every byte of its messages."""

from collections.abc import Iterator

from tank_compiler.schema.names import snake_case
from tank_compiler.schema.schema import (
    Array,
    Bytes,
    Element,
    Extent,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Prefix,
    Protocol,
    Rest,
    Scalar,
    Struct,
    Text,
    Varint,
)
from tank_compiler.schema.values import extent_of


def pages(protocol: Protocol) -> dict[str, str]:
    """The pages' texts by file name."""
    by_id: dict[int | str, list[Message]] = {}
    for message in protocol.messages:
        by_id.setdefault(message.root.name if message.id is None else message.id, []).append(message)
    found = {_page_name(messages): "\n".join([*_page(messages), ""]) for messages in by_id.values()}
    found["README.md"] = "\n".join([*_index(protocol, by_id), ""])
    return found


def _page_name(messages: list[Message]) -> str:
    if messages[0].id is None:
        return f"{snake_case(messages[0].root.name)}.md"
    stem = snake_case(messages[0].root.name).removesuffix("_request").removesuffix("_response")
    return f"{messages[0].id:03d}_{stem}.md"


def _index(protocol: Protocol, by_id: dict[int | str, list[Message]]) -> Iterator[str]:
    yield f"# The messages of {protocol.name}"
    yield ""
    yield f"Made by `tank-protos` from `protos/{protocol.name}`. Change those, then run `make proto`."
    yield "What frames, the columns of the tables and the error bytes are: [the protocol](../README.md)."
    yield ""
    yield "| Id | Message | Kind | What it is for |"
    yield "|---|---|---|---|"
    for messages in by_id.values():
        for message in messages:
            link = f"[{message.root.name}]({_page_name(messages)})"
            number = "" if message.id is None else f"{message.id} (0x{message.id:02x})"
            yield f"| {number} | {link} | {message.kind.value} | {message.root.about} |"
    if protocol.removed:
        yield ""
        yield "Ids that must not be used again, of messages without a version left:"
        yield ""
    for removed in protocol.removed:
        number = "" if removed.id is None else f"{removed.id}, "
        yield f"- {number}{removed.name} ({removed.kind.value})"


def _page(messages: list[Message]) -> Iterator[str]:
    names = ", ".join(message.root.name for message in messages)
    number = messages[0].id
    yield f"# {names}" if number is None else f"# {number} (0x{number:02x}): {names}"
    for message in messages:
        yield ""
        yield f"## {message.root.name}"
        yield ""
        yield message.root.about
        if message.notes:
            yield ""
            yield message.notes
        yield ""
        order = "Little-endian" if message.little_endian else "Big-endian"
        word = "version" if message.versions.low == message.versions.high else "versions"
        stated = f", stated in `{message.version_field.name}`" if message.version_field else ""
        yield f"{order}; {word} {message.versions}{stated}.{''.join(_notes(message))}"
        yield ""
        if not message.root.fields:
            yield "The payload is empty."
            continue
        yield "| Field | On the wire | Present | What it is |"
        yield "|---|---|---|---|"
        yield from _rows(message.root, 0)


def _notes(message: Message) -> Iterator[str]:
    """What else is true of a message's versions, each as a sentence."""
    if message.flexible is not None:
        yield f" Versions {message.flexible} are flexible: compact lengths, and tags behind each struct."
    if message.deprecated is not None:
        yield f" Versions {message.deprecated} are deprecated."
    if message.is_latest_unstable:
        yield " The last version may still change."
    if message.listeners:
        yield f" Taken by: {', '.join(message.listeners)}."


def _rows(struct: Struct, depth: int) -> Iterator[str]:
    for field in struct.fields:
        indent = "&nbsp;&nbsp;&nbsp;&nbsp;" * depth
        about = _cell(" ".join(part for part in (field.about, _default(field)) if part))
        yield f"| {indent}`{field.name}` | {_type(field)} | {_presence(field)} | {about} |"
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from _rows(inner, depth + 1)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(field: Field) -> str:
    if field.default is None:
        return "Default: null."
    if isinstance(field.default, bytes):
        return f"Default: {field.default.hex()}." if any(field.default) else ""
    return f"Default: {field.default}." if field.default not in (None, 0, "", False) else ""


def _presence(field: Field) -> str:
    parts = []
    if field.versions is not None and field.versions != field.tagged:
        parts.append(f"versions {field.versions}")
    if field.when is not None:
        parts.append(f"when {_cell(field.when.text)}")
    if field.tagged is not None:
        parts.append(f"versions {field.tagged} with the tag {field.tag}")
    return ", ".join(parts) or "always"


def _type(field: Field) -> str:
    text = _wire(field)
    if field.nullable is not None and isinstance(field.type, Struct):
        text += "; before it an int8, 1, or -1 for null; with a tag a varint, 1, or 0 for null"
    elif field.nullable is not None and isinstance(extent_of(field.type), Prefix):
        text += f"; null in versions {field.nullable}"
    elif field.nullable is not None:
        text += "; all bits of the length set: null"
    if field.is_key:
        text += "; elements are found by it"
    if field.entity_type:
        text += f"; a {field.entity_type}"
    if field.measures:
        text += f"; the bytes of {', '.join(other.name for other in field.measures)}"
    return text


def _wire(field: Field) -> str:
    kind = field.type
    if isinstance(kind, Marker):
        digits = f"{kind.value & (1 << 8 * kind.scalar.size) - 1:#0{2 + 2 * kind.scalar.size}x}"
        return f"{kind.scalar.name} {digits} when true, nothing when false"
    if isinstance(kind, Bytes):
        if isinstance(kind.length, Fixed):
            return f"{kind.length.size} bytes"
        return f"{_extent(kind.length)}bytes"
    if isinstance(kind, Array):
        return f"{_extent(kind.count)}{_element(kind.element)}"
    return _element(kind)


def _element(kind: Element) -> str:
    if isinstance(kind, Struct):
        return kind.name
    if isinstance(kind, Text):
        return f"{_width(kind.length)} length, UTF-8"
    return "varint" if isinstance(kind, Varint) else kind.name


def _extent(extent: Extent) -> str:
    """How the length or count before a value is known."""
    if isinstance(extent, FromField):
        return f"`{extent.field.name}` × "
    if isinstance(extent, Rest):
        return "the rest of the payload: "
    return f"{_width(extent)} n, n × "


def _width(extent: Extent) -> str:
    if isinstance(extent, Prefix):
        return f"{extent.scalar.name} (flexible: compact)"
    return extent.name if isinstance(extent, Scalar) else "varint"
