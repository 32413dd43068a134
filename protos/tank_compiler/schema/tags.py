"""Reads the keys of tagged fields: `tag` and `taggedVersions`."""

from typing import Final

from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import Field, Marker, Struct, Versions

MAX_TAG: Final = (1 << 31) - 1
"""The greatest tag that every reader accepts: some keep it in an int32."""


def set_tag(field: Field, members: Members, present: Versions) -> None:
    """Reads both keys; `present`: the field's versions. Raises DefinitionError."""
    if "tag" not in members and "taggedVersions" not in members:
        return
    tag = members.number("tag")
    if not 0 <= tag <= MAX_TAG:
        raise members.error("tag", f"the tag {tag} is not possible; use 0..{MAX_TAG}")
    stated = members.versions_or_none("taggedVersions")
    if stated is None:
        raise members.error("taggedVersions", "a tag without versions has no meaning; remove 'tag', too")
    tagged = stated.within(present)
    if tagged is None:
        what = f"versions {stated} are none of the field's, {present}; name some that it has"
        raise members.error("taggedVersions", what)
    if field.flexible is None or tagged.within(field.flexible) != tagged:
        what = f"only flexible versions have tagged fields; not all of {tagged} are in 'flexibleVersions'"
        raise members.error("taggedVersions", what)
    if field.when is not None or isinstance(field.type, Marker) or "measures" in members:
        what = "a tagged field is there when its tag is; remove 'when', 'marker' and 'measures'"
        raise members.error("tag", what)
    field.tag, field.tagged = tag, tagged


def check(struct: Struct) -> None:
    """Raises DefinitionError when two fields share a tag."""
    tags: dict[int, Field] = {}
    for field in struct.fields:
        if field.tag is None:
            continue
        other = tags.setdefault(field.tag, field)
        if other is not field:
            what = f"the field at {other.place} has the tag {field.tag}, too; give it another one"
            raise DefinitionError(field.place, f"{struct.name}.{field.name}", what)
