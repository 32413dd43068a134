"""Decodes messages' JSON objects into Arrow structs: fast when all of them fit the schema, else exactly.

The fast way hands all contents to Arrow's own JSON reader in one piece. A piece that it refuses is halved
down to small blocks, and a block that is still refused is read one by one, as `from_json` reads
(rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark_tank.json.rows import RowReader
from pyspark_tank.options import ParseMode

if TYPE_CHECKING:
    import pyarrow as pa

# How many messages are decoded one by one when one of them doesn't fit: few, so that a single bad message
# costs little, but enough that many bad messages don't cost much more.
BLOCK = 64


class JsonDecoder:
    """Decodes content by one schema; made once for a task.

    `corrupt` names the field, if the schema has it, that gets the whole content where it doesn't fit.
    """

    def __init__(self, fields: pa.Schema, mode: ParseMode, corrupt: str | None = None) -> None:
        import pyarrow as pa

        self._type = pa.struct(list(fields))
        self._corrupt = corrupt if corrupt in fields.names else None
        plain = [
            pa.field(field.name, _as_read(field.type)) for field in fields if field.name != self._corrupt
        ]
        self._read_as = pa.schema(plain)
        self._rows = RowReader(fields, mode, self._corrupt)
        self._fast = bool(plain) and all(_readable(field.type) for field in plain)

    def decode(self, contents: pa.Array) -> pa.StructArray:
        """One struct for each content, null for empty content. Raises TankSourceError under FAILFAST."""
        import pyarrow as pa

        if len(contents) == 0:
            return pa.array([], self._type)
        pieces = list(self._pieces(contents))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def _pieces(self, contents: pa.Array) -> Iterator[pa.StructArray]:
        whole = self._at_once(contents) if self._fast else None
        if whole is not None:
            yield whole
        elif not self._fast or len(contents) <= BLOCK:
            yield self._one_by_one(contents)
        else:
            half = len(contents) // 2
            yield from self._pieces(contents.slice(0, half))
            yield from self._pieces(contents.slice(half))

    def _at_once(self, contents: pa.Array) -> pa.StructArray | None:
        """All contents by Arrow's reader; None when one of them isn't exactly one fitting object.

        Each content begins with { and ends with }, and a line end stands between two of them, which JSON
        allows in no string. So no object can reach from one content into the next, each content gives at
        least one, and when there are as many objects as contents, each gave its own.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.json as arrow_json

        if not pc.all(pc.and_(pc.starts_with(contents, b"{"), pc.ends_with(contents, b"}"))).as_py():
            return None
        rows = pa.ListArray.from_arrays(pa.array([0, len(contents)], pa.int32()), contents)
        text = pc.binary_join(rows, b"\n")[0].as_buffer()
        try:
            table = arrow_json.read_json(
                pa.BufferReader(text),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=self._read_as, unexpected_field_behavior="ignore"
                ),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            )
            if table.num_rows != len(contents):
                return None
            columns = [
                pa.nulls(len(contents), field.type)
                if field.name == self._corrupt
                else _single(table.column(field.name)).cast(field.type)
                for field in self._type
            ]
            made = pa.StructArray.from_arrays(columns, fields=list(self._type))
            # Arrow's reader takes bytes for UTF-8, and numbers for decimals that hold them, without checking
            # them.
            made.validate(full=True)
        except pa.ArrowException:
            return None
        return made

    def _one_by_one(self, contents: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        return pa.array([self._rows.read(content) for content in contents.to_pylist()], self._type)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """The schema for Arrow's reader: it takes dates for numbers, so they are read as text and cast."""
    import pyarrow as pa

    return pa.string() if pa.types.is_date(kind) else kind


def _readable(kind: pa.DataType) -> bool:
    """Whether Arrow's reader makes of JSON what Spark's users expect."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return all(_readable(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _readable(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_timestamp(kind)
    )


def _single(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if hasattr(combined, "chunks") else combined
