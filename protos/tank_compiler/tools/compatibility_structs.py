"""Compares two layouts of a message, field by field: the part of `tank-protos check` that knows types.

A layout (see `layouts`) is the message in one version: every field is there, or is tagged, or is absent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tank_compiler.schema.errors import Place
from tank_compiler.schema.schema import (
    UUID,
    Array,
    Bytes,
    Compact,
    DefaultValue,
    Element,
    Extent,
    Field,
    FieldCondition,
    Fixed,
    FromField,
    Marker,
    Message,
    Prefix,
    Rest,
    Scalar,
    Struct,
    Text,
    Type,
    Varint,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two layouts of one version."""

    is_break: bool
    subject: str
    what: str
    old: Place | None
    new: Place | None


class Comparer:
    """Walks two layouts of one version side by side."""

    def __init__(self, old: Message, new: Message, renamed: dict[tuple[str, str], str]) -> None:
        """`renamed`: the new names of fields, by struct and field; this object uses it and adds to it."""
        self._old = old
        self._new = new
        self._renamed = renamed
        self._is_flexible_alike = old.root.has_tags == new.root.has_tags
        self._paired: dict[int, Field] = {}
        """The new field that replaces an old one, by the old one's identity."""

    def differences(self) -> Iterator[Difference]:
        """Yields the differences; one may come twice if its struct is used twice."""
        old, new = self._old, self._new
        places = (old.root.place, new.root.place)
        if not self._is_flexible_alike:
            was, is_ = ("flexible", "not flexible")[:: 1 if old.root.has_tags else -1]
            what = f"was {was}, is {is_}: lengths, tagged fields and the header before it differ"
            yield Difference(True, old.root.name, what, *places)
        if old.little_endian != new.little_endian and _has_order(old.root):
            orders = {True: "little", False: "big"}
            what = f"was {orders[old.little_endian]}-endian, is {orders[new.little_endian]}-endian"
            yield Difference(True, old.root.name, what, *places)
        yield from self._structs(old.root, new.root)
        if not self._same_version_field():
            what = "another field states the version, or none does"
            yield Difference(True, old.root.name, what, *places)

    def _same_version_field(self) -> bool:
        states, states_now = self._old.version_field, self._new.version_field
        if states is None or states_now is None:
            return states is states_now
        before = next(field for field in self._old.root.fields if field.name == states.name)
        after = self._paired.get(id(before))
        return after is not None and after.name == states_now.name

    # Structs

    def _structs(self, old: Struct, new: Struct) -> Iterator[Difference]:
        if old.name != new.name and old is not self._old.root:
            what = f"the struct is called {new.name} now; the wire has no names"
            yield Difference(False, old.name, what, old.place, new.place)
        pairs = self._pair_plain(old, new) + _pair_tagged(old, new)
        self._renamed |= {(old.name, was.name): is_.name for was, is_ in pairs if was.name != is_.name}
        pairs += self._pair_absent(old, new)
        for before, after in pairs:
            self._paired[id(before)] = after
        yield from _unpaired(old, new, pairs)
        yield from _moved(old, new, pairs)
        for before, after in pairs:
            yield from self._fields(old, before, after)

    def _pair_plain(self, old: Struct, new: Struct) -> list[tuple[Field, Field]]:
        """Pairs untagged fields: those of the same name, then, between two such pairs, those that are
        alike."""
        before, after = _plain(old), _plain(new)
        named = {field.name for field in before} & {field.name for field in after}
        kept = {field.name for field in new.fields}
        pairs = [(was, is_) for was in before for is_ in after if was.name == is_.name]
        fresh = _between(after, named)
        for at, left in _between(before, named).items():
            candidates = fresh.get(at, [])
            for was in left:
                alike = [is_ for is_ in candidates if self._form(was.type) == self._form(is_.type)]
                if alike and was.name not in kept:
                    pairs.append((was, alike[0]))
                    candidates = candidates[candidates.index(alike[0]) + 1 :]
        return pairs

    def _pair_absent(self, old: Struct, new: Struct) -> list[tuple[Field, Field]]:
        """Pairs fields that this version does not have, by the names that they have in other versions."""
        after = {field.name: field for field in new.fields if field.is_absent}
        names = [(field, self._renamed.get((old.name, field.name), field.name)) for field in old.fields]
        return [(field, after[name]) for field, name in names if field.is_absent and name in after]

    # Fields

    def _fields(self, struct: Struct, old: Field, new: Field) -> Iterator[Difference]:
        subject, places = f"{struct.name}.{old.name}", (old.place, new.place)
        if old.name != new.name and not old.is_absent:
            what = f"is called {new.name} now; the wire has no names"
            yield Difference(False, subject, what, *places)
        if not old.is_absent:
            for what in self._on_the_wire(old, new):
                yield Difference(True, subject, what, *places)
            yield from self._inner(old.type, new.type)
        elif old.is_ignorable != new.is_ignorable:
            done = "dropped" if new.is_ignorable else "refused"
            what = f"a value that has no place here is {done} now (ignorable)"
            yield Difference(False, subject, what, *places)
        if old.is_key != new.is_key:
            what = "mapKey changed: the wire is the same, what the list finds its elements by is not"
            yield Difference(False, subject, what, *places)
        keeps = [kind.keep_prefix for kind in (old.type, new.type) if isinstance(kind, Bytes)]
        if keeps in ([True, False], [False, True]):
            what = "keepPrefix changed: the wire is the same, what the value holds is not"
            yield Difference(False, subject, what, *places)
        yield from self._defaults(subject, old, new)

    def _inner(self, old: Type, new: Type) -> Iterator[Difference]:
        before = old.element if isinstance(old, Array) else old
        after = new.element if isinstance(new, Array) else new
        if isinstance(before, Struct) and isinstance(after, Struct):
            yield from self._structs(before, after)

    def _on_the_wire(self, old: Field, new: Field) -> Iterator[str]:
        """The reasons why the field's bytes differ."""
        if self._form(old.type) != self._form(new.type):
            yield f"was {spelled(old.type)}, is {spelled(new.type)}"
        if old.nullable is None and new.nullable is not None:
            yield "can be null now, which old readers of this version can't read"
        if old.nullable is not None and new.nullable is None:
            yield "could be null, and can't be any more"
        if self._condition(old.when) != self._condition(new.when, is_new=True):
            was, is_ = (f"when {one.when.text}" if one.when else "always there" for one in (old, new))
            yield f"was {was}, is {is_}"
        measured = [id(self._paired.get(id(field))) for field in old.measures]
        if measured != [id(field) for field in new.measures]:
            yield "measures other fields"

    def _condition(self, condition: FieldCondition | None, *, is_new: bool = False) -> object:
        """A condition in a form that compares equal whatever the order of its parts. Old fields are replaced
        by the new ones."""
        if condition is None:
            return None
        return {
            frozenset(
                (id(one.field if is_new else self._paired.get(id(one.field))), one.operator, one.number)
                for one in together
            )
            for together in condition.alternatives
        }

    def _defaults(self, subject: str, old: Field, new: Field) -> Iterator[Difference]:
        if old.is_absent:
            reader = "is read where the version has no such field"
        elif old.tag is not None:
            reader = "is read where the tag is missing"
        elif old.when is not None:
            reader = "is read where the condition does not hold"
        else:
            reader = ""
        if old.default != new.default and type(old.type) is type(new.type):
            was, is_ = (_shown(field.default) for field in (old, new))
            what = (
                f"the default was {was}, is {is_}: it {reader or 'changes what is written, not what is read'}"
            )
            yield Difference(bool(reader), subject, what, old.place, new.place)
        structs = isinstance(old.type, Struct) and isinstance(new.type, Struct) and old.default is not None
        if reader and structs:
            yield from self._inner_defaults(old.type, new.type)

    def _inner_defaults(self, old: Type, new: Type) -> Iterator[Difference]:
        """The differences between the defaults of a struct's fields, which count when the struct is not on
        the wire."""
        assert isinstance(old, Struct)
        assert isinstance(new, Struct)
        after = {field.name: field for field in new.fields}
        for before in old.fields:
            name = self._renamed.get((old.name, before.name), before.name)
            if name in after:
                unseen = replace(before, is_absent=True)
                yield from self._defaults(f"{old.name}.{before.name}", unseen, after[name])

    # Types

    def _form(self, kind: Type) -> object:
        """A form that is equal for types with the same bytes; structs are compared elsewhere."""
        if isinstance(kind, Array):
            return "array", self._form(kind.element), self._extent(kind.count)
        if isinstance(kind, Text | Bytes):
            return type(kind), self._extent(kind.length)
        return "struct" if isinstance(kind, Struct) else kind

    def _extent(self, extent: Extent) -> object:
        if isinstance(extent, FromField):
            return "from", id(self._paired.get(id(extent.field), extent.field))
        if not self._is_flexible_alike and isinstance(extent, Compact | Scalar):
            return "prefix"  # a change of flexibleVersions is reported once for the whole message
        return extent


def _plain(struct: Struct) -> list[Field]:
    return [field for field in struct.fields if not field.is_absent and field.tag is None]


def _tagged(struct: Struct) -> list[Field]:
    return [field for field in struct.fields if not field.is_absent and field.tag is not None]


def _between(fields: list[Field], named: set[str]) -> dict[str, list[Field]]:
    """The fields whose names are not among `named`, grouped by the last named field before them."""
    found: dict[str, list[Field]] = {}
    last = ""
    for field in fields:
        if field.name in named:
            last = field.name
        else:
            found.setdefault(last, []).append(field)
    return found


def _pair_tagged(old: Struct, new: Struct) -> list[tuple[Field, Field]]:
    """Pairs fields with the same tag, unless the old field has another place now, and the tag another
    field."""
    after = {field.tag: field for field in _tagged(new)}
    kept = {field.name for field in new.fields}
    pairs = [(field, after[field.tag]) for field in _tagged(old) if field.tag in after]
    return [(was, is_) for was, is_ in pairs if was.name == is_.name or was.name not in kept]


def _unpaired(old: Struct, new: Struct, pairs: list[tuple[Field, Field]]) -> Iterator[Difference]:
    """The differences for old fields that new code doesn't read, and new fields that old code doesn't
    write."""
    paired = {id(field) for pair in pairs for field in pair}
    now = {field.name: field for field in new.fields if not field.is_absent}
    then = {field.name for field in old.fields if not field.is_absent}
    tags = {field.tag: field.name for field in _tagged(old)}
    for field in _plain(old) + _tagged(old):
        if id(field) in paired:
            continue
        other = now.get(field.name)
        place = other.place if other is not None else new.place
        what = "is not there any more" if other is None else f"was {_standing(field)}, is {_standing(other)}"
        yield Difference(True, f"{old.name}.{field.name}", what, field.place, place)
    for field in _plain(new) + _tagged(new):
        if id(field) in paired:
            continue
        subject = f"{new.name}.{field.name}"
        if field.tag in tags:
            what = f"has the tag {field.tag}, which was {tags[field.tag]}'s; take another one"
            yield Difference(True, subject, what, old.place, field.place)
        elif field.tag is None and field.name not in then:
            what = "is there now; a version that is known can get no fields but tagged ones"
            yield Difference(True, subject, what, old.place, field.place)


def _standing(field: Field) -> str:
    return "a field without tag" if field.tag is None else f"tag {field.tag}"


def _moved(old: Struct, new: Struct, pairs: list[tuple[Field, Field]]) -> Iterator[Difference]:
    """The differences for fields in another order: the fewest that must have moved."""
    at = {id(field): index for index, field in enumerate(_plain(new))}
    after = {id(was): is_ for was, is_ in pairs}
    there = [(field, after[id(field)]) for field in _plain(old) if id(field) in after]
    steady = _longest_rising([at[id(is_)] for _, is_ in there])
    for index, (was, is_) in enumerate(there):
        if index not in steady:
            what = "stands in another place among the fields"
            yield Difference(True, f"{old.name}.{was.name}", what, was.place, is_.place)


def _longest_rising(numbers: list[int]) -> set[int]:
    """The indices of a longest rising subsequence."""
    chains: list[list[int]] = [[]]
    for index, number in enumerate(numbers):
        before = [chain for chain in chains if not chain or numbers[chain[-1]] < number]
        chains.append([*max(before, key=len), index])
    longest = max(chains, key=len)
    return set(longest)


def _has_order(struct: Struct) -> bool:
    """Whether the byte order matters for any field."""
    for field in struct.fields:
        kinds: list[object] = [field.type]
        if isinstance(field.type, Array):
            kinds += [field.type.element, field.type.count]
        kinds += [kind.length for kind in kinds if isinstance(kind, Text | Bytes)]
        kinds += [kind.scalar for kind in kinds if isinstance(kind, Marker)]
        if field.is_absent:
            continue
        for kind in kinds:
            if isinstance(kind, Scalar) and kind.size > 1 and kind is not UUID:
                return True
            if isinstance(kind, Struct) and _has_order(kind):
                return True
    return False


# In words


def spelled(kind: Type | Element) -> str:
    """A type in words: `int32`, `string (int16 length)`, `[]struct (compact count)`."""
    match kind:
        case Scalar():
            return kind.name
        case Varint():
            return "varint"
        case Text():
            return f"string ({_spelled_extent(kind.length)} length)"
        case Bytes(length=Fixed(size=size)):
            return f"{size} bytes"
        case Bytes():
            return f"bytes ({_spelled_extent(kind.length)} length)"
        case Marker():
            return f"marker {kind.value:#x} ({kind.scalar.name})"
        case Array():
            return f"[]{spelled(kind.element)} ({_spelled_extent(kind.count)} count)"
        case Struct():
            return "struct"


def _spelled_extent(extent: Extent) -> str:
    match extent:
        case Scalar():
            return extent.name
        case FromField():
            return f"{extent.field.name} as"
        case Fixed():
            return str(extent.size)
        case Prefix():
            return extent.scalar.name
        case _:
            return {Varint: "varint", Compact: "compact", Rest: "rest as"}[type(extent)]


def _shown(default: DefaultValue) -> str:
    return "null" if default is None else "empty" if default in ("", b"") else str(default)
