"""The part of a decoder that reads the tagged fields at the end of a struct."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tank_protos.compiler.emit_decode import StructBody


class TagReader:
    """Writes the statements that read a struct's tagged fields: those it knows, and those it does not."""

    def __init__(self, body: "StructBody") -> None:
        self._body = body
        self._out = body.out
        self._known = [field for field in body.struct.fields if field.tag is not None]

    def emit(self) -> None:
        """Leaves the unknown tags in a variable of their own."""
        body = self._body
        prefix = f"{body.prefix}_" if body.prefix else ""
        for field in self._known:
            body.owner.declare(field, body.prefix)
        count = body.owner.temporary(f"{prefix}tags")
        body.lengths.varint(count, is_short=True)
        body.unknown = body.owner.temporary(f"{prefix}unknown")
        for field in self._known:
            body.declare_default(field)
        self._out.line(f"{body.unknown}: tuple[UnknownTag, ...] = ()")
        body.owner.uses |= {"UnknownTag"}
        with self._out.block(f"if {count}:"):
            if self._known:
                self._loop(count, prefix)
            else:
                self._out.line(f"{body.unknown}, at = read_unknown(payload, at, {count}, keep_unknown)")
                body.owner.uses.add("read_unknown")

    def _loop(self, count: str, prefix: str) -> None:
        body, owner = self._body, self._body.owner
        kept = owner.temporary(f"{prefix}kept")
        tag, end = owner.temporary(f"{prefix}tag"), owner.temporary(f"{prefix}tag_end")
        self._out.line(f"{tag} = -1")
        self._out.line(f"{kept}: list[UnknownTag] = []")
        with self._out.block(f"while {count}:"):
            self._out.line(f"{count} -= 1")
            self._out.line(f"{tag}, at, {end} = read_tag(payload, at, {tag})")
            for at, field in enumerate(sorted(self._known, key=lambda field: field.tag or 0)):
                with self._out.block(f"{'elif' if at else 'if'} {tag} == {field.tag}:"):
                    body.field(field, is_declared=True)
                    body.flush()
            with self._out.block("else:"):
                self._out.line("if keep_unknown:")
                self._out.line(f"    {kept}.append(UnknownTag({tag}, payload[at:{end}].tobytes()))")
                self._out.line(f"at = {end}")
            self._out.line(f"if at != {end}:")
            self._out.line(f'    raise wrong_tag("{body.struct.name}", {tag}, at - {end})')
        self._out.line(f"{body.unknown} = tuple({kept})")
        owner.uses |= {"read_tag", "wrong_tag"}
