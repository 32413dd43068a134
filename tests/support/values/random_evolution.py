"""Random definitions in Kafka's form, and random changes of them: for the property of `tank-protos check`."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

Keys = dict[str, Any]

SCALARS = ("int8", "int16", "uint16", "int32", "int64", "bool", "float64", "uuid")
SIZED = ("string", "bytes", "records", "[]int32", "[]string")
VERSIONS = ("0+", "0+", "0+", "0+", "1+", "2+", "3+", "0-1", "0-2", "1-2")
RENAMED = "Renamed"
"""What a new name ends with: so a reader of the test knows which field it was."""


class Evolution:
    """A definition and how it may go on. Not everything that comes out can be compiled: try again then."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0
        self._tags = 0

    def definition(self) -> Keys:
        """A message with some fields, structs among them."""
        choose = self._random.choice
        return {
            "type": "data",
            "name": "Example",
            "validVersions": "0-3",
            "flexibleVersions": choose(("none", "2+", "2+", "0+")),
            "byteOrder": choose(("big", "big", "little")),
            "fields": [self._field(depth=0) for _ in range(self._random.randint(1, 4))],
        }

    def _name(self, begin: str) -> str:
        self._names += 1
        return f"{begin}{self._names}"

    def _field(self, depth: int) -> Keys:
        random = self._random
        field: Keys = {"name": self._name("Field"), "about": "A field.", "versions": random.choice(VERSIONS)}
        kinds = [*SCALARS, *SIZED] + ["struct", "[]struct"] * (3 if depth < 2 else 0)
        kind = random.choice(kinds)
        field["type"] = kind
        if kind.endswith("struct"):
            # One that is always there: a struct with nothing in it could change without a trace.
            always: Keys = {
                "name": self._name("Field"),
                "about": "A field.",
                "versions": "0+",
                "type": "int16",
            }
            inner = [always, *(self._field(depth + 1) for _ in range(random.randint(0, 2)))]
            field |= {"type": kind.replace("struct", self._name("Struct")), "fields": inner}
        if kind not in SCALARS and random.random() < 0.4:
            field["nullableVersions"] = random.choice(VERSIONS)
        if random.random() < 0.4:
            self._set_default(field)
        if random.random() < 0.2:
            self._set_tag(field)
        return field

    def _set_default(self, field: Keys) -> None:
        numbers = ("int8", "int16", "uint16", "int32", "int64", "float64")
        field.pop("default", None)
        if field["type"] in numbers:
            field["default"] = str(self._random.randint(0, 3))
        elif field["type"] == "bool":
            field["default"] = self._random.choice(("true", "false"))
        elif field["type"] == "string" and self._random.random() < 0.5:
            field["default"] = self._random.choice(("x", "y"))
        elif "nullableVersions" in field:
            field |= {"nullableVersions": field["versions"], "default": "null"}

    def _set_tag(self, field: Keys) -> None:
        versions = self._random.choice(("2+", "3+"))
        field |= {"versions": versions, "taggedVersions": versions, "tag": self._tags}
        self._tags += 1

    # Changes

    def evolved(self, definition: Keys) -> Keys:
        """The definition after one to three changes."""
        new = copy.deepcopy(definition)
        changes: list[Callable[[Keys], None]] = [
            *(self._rename, self._remove, self._add, self._add_tagged, self._swap, self._change_type),
            *(self._change_versions, self._change_nullable, self._change_default, self._change_tag),
            *(self._change_flexible, self._change_valid, self._change_order, self._change_harmless),
        ]
        for change in self._random.choices(changes, k=self._random.choice((1, 1, 1, 2, 3))):
            change(new)
        return new

    def _some(self, definition: Keys) -> tuple[list[Keys], Keys]:
        """A list of fields, of the message or of a struct in it, and one of them."""
        lists = [definition["fields"]]
        for fields in lists:
            lists += [field["fields"] for field in fields if field.get("fields")]
        fields = self._random.choice([one for one in lists if one])
        return fields, self._random.choice(fields)

    def _rename(self, definition: Keys) -> None:
        _, field = self._some(definition)
        field["name"] += RENAMED

    def _remove(self, definition: Keys) -> None:
        fields, field = self._some(definition)
        if len(fields) > 1:
            fields.remove(field)

    def _add(self, definition: Keys) -> None:
        fields, field = self._some(definition)
        new = self._field(depth=2)
        if self._random.random() < 0.5:
            new["versions"], definition["validVersions"] = "4+", "0-4"
        fields.insert(fields.index(field), new)

    def _add_tagged(self, definition: Keys) -> None:
        fields, _ = self._some(definition)
        new = self._field(depth=2)
        self._set_tag(new)
        fields.append(new)

    def _swap(self, definition: Keys) -> None:
        fields, field = self._some(definition)
        other = self._random.choice(fields)
        at, to = fields.index(field), fields.index(other)
        fields[at], fields[to] = other, field

    def _change_type(self, definition: Keys) -> None:
        _, field = self._some(definition)
        if "fields" in field:
            is_list = field["type"].startswith("[]")
            field["type"] = field["type"][2:] if is_list else "[]" + field["type"]
        else:
            field["type"] = self._random.choice([*SCALARS, *SIZED])
            field.pop("default", None)

    def _change_versions(self, definition: Keys) -> None:
        _, field = self._some(definition)
        field["versions"] = self._random.choice(VERSIONS)

    def _change_nullable(self, definition: Keys) -> None:
        _, field = self._some(definition)
        field["nullableVersions"] = self._random.choice((*VERSIONS, "none"))

    def _change_default(self, definition: Keys) -> None:
        _, field = self._some(definition)
        self._set_default(field)

    def _change_tag(self, definition: Keys) -> None:
        _, field = self._some(definition)
        if "tag" in field and self._random.random() < 0.3:
            del field["tag"], field["taggedVersions"]
        elif "tag" in field:
            field["tag"] = self._random.randint(0, self._tags)
        else:
            self._set_tag(field)

    def _change_flexible(self, definition: Keys) -> None:
        definition["flexibleVersions"] = self._random.choice(("none", "0+", "1+", "2+", "3+"))

    def _change_valid(self, definition: Keys) -> None:
        definition["validVersions"] = self._random.choice(("0-4", "0-4", "0-2", "1-3"))

    def _change_order(self, definition: Keys) -> None:
        definition["byteOrder"] = self._random.choice(("big", "little"))

    def _change_harmless(self, definition: Keys) -> None:
        _, field = self._some(definition)
        field |= {"about": "Another text.", "ignorable": True}


def text_of(definition: Keys) -> str:
    """The definition as a file has it."""
    return json.dumps(definition)
