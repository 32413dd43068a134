"""Loads a checked protocol from the definitions' texts. Errors are DefinitionErrors with file and line."""

from collections.abc import Iterable, Mapping

from tank_compiler.schema import names, source
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.members import Members
from tank_compiler.schema.message_loading import MESSAGE_KEYS, MessageLoader
from tank_compiler.schema.schema import Kind, Message, Protocol, Removed
from tank_compiler.schema.source import Node


def load_protocol(name: str, definitions: Iterable[tuple[str, str]]) -> Protocol:
    """A protocol from (file name, text) pairs. Raises DefinitionError."""
    nodes = [_read(text, file) for file, text in sorted(definitions)]
    shared = _shared(nodes)
    loaded = [_load(node, notes, shared) for node, notes in nodes]
    messages = [message for message in loaded if isinstance(message, Message)]
    removed = [message for message in loaded if isinstance(message, Removed)]
    _check_messages(messages)
    order = list(Kind)
    unnumbered = 1 << 16
    messages.sort(
        key=lambda message: (
            unnumbered if message.id is None else message.id,
            order.index(message.kind),
            message.root.name,
        )
    )
    return Protocol(name, messages, removed)


def load_message(text: str, file: str) -> Message:
    """One message that has versions. Raises DefinitionError."""
    loaded = _load(*_read(text, file), {})
    assert isinstance(loaded, Message), "only whole protocols have removed messages"
    return loaded


def _read(text: str, file: str) -> tuple[Node, str]:
    """A definition's object, and the comment at its head."""
    return source.read(text, file), source.leading_comment(text)


def _members(node: Node) -> Members:
    return Members(node, source.stated_name(node), MESSAGE_KEYS)


def _shared(nodes: Iterable[tuple[Node, str]]) -> dict[str, Members]:
    """The messages that can be types of fields in others, by name: those of type `data` with their byte
    order, which have no frame of their own."""
    found = [_members(node) for node, _ in nodes]
    return {
        members.text("name"): members
        for members in found
        if "id" not in members and "byteOrder" in members and members.text("type") == Kind.DATA.value
    }


def _load(node: Node, notes: str, shared: Mapping[str, Members]) -> Message | Removed:
    members = _members(node)
    name = members.text("name")
    members.check_name(name, "a struct's name")
    others = {other: of_other for other, of_other in shared.items() if other != name}
    return MessageLoader(members, others).message(notes)


def _check_messages(messages: list[Message]) -> None:
    """Raises DefinitionError when two messages of a protocol share an id or a Python module."""
    ids: dict[tuple[Kind, int], Message] = {}
    modules: dict[str, Message] = {}
    writers: dict[str, Message] = {}
    for message in messages:
        name, place = message.root.name, message.root.place
        same = message if message.id is None else ids.setdefault((message.kind, message.id), message)
        if same is not message:
            what = (
                f"the {message.kind.value} {same.root.name} has the id {message.id}, too; give it another one"
            )
            raise DefinitionError(place, name, what)
        for writer in message.fast_writers:
            taken = writers.setdefault(names.snake_case(writer.name), message)
            if taken is not message or [one.name for one in message.fast_writers].count(writer.name) > 1:
                what = f"{taken.root.name} has a fast writer called {writer.name}, too; rename one of them"
                raise DefinitionError(place, name, what)
        module = names.snake_case(name)
        if names.is_python_keyword(module) or module in names.RESERVED_MODULES:
            what = f"a module cannot be called '{module}' in generated code; rename the message"
            raise DefinitionError(place, name, what)
        other = modules.setdefault(module, message)
        if other is not message:
            what = f"the message at {other.root.place} becomes the module '{module}', too; rename one of them"
            raise DefinitionError(place, name, what)
