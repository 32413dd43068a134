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
    Versions,
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
    has_api_keys = any(message.has_api_key for message in protocol.messages)
    has_own_frames = any(message.id_type.size > 1 for message in protocol.messages)
    shows_versions = has_api_keys or has_own_frames
    yield f"# The messages of {protocol.name}"
    yield ""
    yield f"Made by `tank-protos` from `protos/{protocol.name}`. Change those, then run `make proto`."
    if has_api_keys:
        form = "[on the wire](../definitions.md#on-the-wire-in-kafkas-messages)"
        columns = "[how tables are read](../README.md#reading-the-tables)"
        yield f"How lengths, lists and tags are written: {form}. What the columns mean: {columns}."
    elif has_own_frames:
        columns = "[how tables are read](../README.md#reading-the-tables)"
        frames = f"[{protocol.name}](../{protocol.name}.md)"
        yield f"Frames, and what the versions are: {frames}. What the columns mean: {columns}."
    else:
        yield "[The protocol](../README.md) explains frames, the columns of the tables, and the error bytes."
    yield ""
    heads = ["Key" if has_api_keys else "Id", "Message", "Kind", *(["Versions"] if shows_versions else [])]
    yield _row([*heads, "What it is for"])
    yield "|---" * (len(heads) + 1) + "|"
    for messages in by_id.values():
        for message in messages:
            cells = [_number(message), f"[{message.root.name}]({_page_name(messages)})", message.kind.value]
            cells += [str(message.versions)] if shows_versions else []
            yield _row([*cells, message.root.about])
    if protocol.removed:
        yield ""
        yield "Ids that must not be used again, of messages without a version left:"
        yield ""
    for removed in protocol.removed:
        number = "" if removed.id is None else f"{removed.id}, "
        yield f"- {number}{removed.name} ({removed.kind.value})"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(message: Message) -> str:
    """The number in a frame: an id also as it is seen in a dump; empty: the message has none."""
    if message.id is None:
        return ""
    return str(message.id) if message.has_api_key else f"{message.id} (0x{message.id:02x})"


def _page(messages: list[Message]) -> Iterator[str]:
    names = ", ".join(message.root.name for message in messages)
    number = _number(messages[0])
    yield f"# {number}: {names}" if number else f"# {names}"
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
        stated = f", stated in `{message.version_field.name}`" if message.version_field else ""
        yield f"{order}; {message.versions.in_words}{stated}.{''.join(_notes(message))}"
        yield ""
        if not message.root.fields:
            yield "The payload is empty."
            continue
        yield "| Field | On the wire | Present | What it is |"
        yield "|---|---|---|---|"
        yield from _rows(message.root, 0)


def _notes(message: Message) -> Iterator[str]:
    """Further facts about a message's versions, each as a sentence."""
    if message.flexible is not None:
        verb = "is" if _is_one(message.flexible) else "are"
        named = message.flexible.in_words.capitalize()
        yield f" {named} {verb} flexible: compact lengths, and tags behind each struct."
    if message.deprecated is not None:
        verb = "is" if _is_one(message.deprecated) else "are"
        yield f" {message.deprecated.in_words.capitalize()} {verb} deprecated."
    if message.is_latest_unstable:
        yield " The last version may still change."
    if message.listeners:
        yield f" Taken by: {', '.join(message.listeners)}."


def _is_one(versions: Versions) -> bool:
    return versions.low == versions.high


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
        parts.append(field.versions.in_words)
    if field.when is not None:
        parts.append(f"when {_cell(field.when.text)}")
    if field.tagged is not None:
        parts.append(f"{field.tagged.in_words} with the tag {field.tag}")
    return ", ".join(parts) or "always"


def _type(field: Field) -> str:
    text = _wire(field)
    if field.nullable is not None and isinstance(field.type, Struct):
        text += "; before it an int8, 1, or -1 for null; with a tag a varint, 1, or 0 for null"
    elif field.nullable is not None and isinstance(extent_of(field.type), Prefix):
        text += f"; null in {field.nullable.in_words}"
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
    """The length or count before a value, as the table shows it."""
    if isinstance(extent, FromField):
        return f"`{extent.field.name}` × "
    if isinstance(extent, Rest):
        return "the rest of the payload: "
    return f"{_width(extent)} n, n × "


def _width(extent: Extent) -> str:
    if isinstance(extent, Prefix):
        return f"{extent.scalar.name} (flexible: compact)"
    return extent.name if isinstance(extent, Scalar) else "varint"
