"""Messages' content, JSON objects, to Arrow structs: fast where all of them fit the schema, exact where not.

The fast way hands all contents to Arrow's own JSON reader in one piece. Content that it refuses is halved
until the messages at fault stand alone; those are read one by one, as `from_json` reads them: a field that
doesn't fit its type is null, content that is no JSON object is a null struct, or an error (`mode=FAILFAST`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark_tank.errors import TankSourceError
from pyspark_tank.options import ParseMode

if TYPE_CHECKING:
    import pyarrow as pa

# Groups of refused content of at most so many messages are read one by one.
ONE_BY_ONE = 8


class JsonDecoder:
    """Decodes content by one schema; made once for a task."""

    def __init__(self, fields: pa.Schema, mode: ParseMode) -> None:
        import pyarrow as pa

        self._type = pa.struct(list(fields))
        self._mode = mode
        plain = [pa.field(field.name, _as_read(field.type)) for field in fields]
        self._read_as = pa.schema(plain)
        self._fast = bool(plain) and all(_readable(field.type) for field in plain)

    def decode(self, contents: pa.Array) -> pa.StructArray:
        """One struct a content, null where it is no JSON object. Raises TankSourceError under FAILFAST."""
        import pyarrow as pa

        if len(contents) == 0:
            return pa.array([], self._type)
        pieces = list(self._pieces(contents))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def _pieces(self, contents: pa.Array) -> list[pa.StructArray]:
        whole = self._at_once(contents) if self._fast else None
        if whole is not None:
            return [whole]
        if not self._fast or len(contents) <= ONE_BY_ONE:
            return [self._one_by_one(contents)]
        half = len(contents) // 2
        return self._pieces(contents.slice(0, half)) + self._pieces(contents.slice(half))

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
                _single(table.column(index)).cast(field.type) for index, field in enumerate(self._type)
            ]
        except pa.ArrowException:
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self._type))

    def _one_by_one(self, contents: pa.Array) -> pa.StructArray:
        import pyarrow as pa

        return pa.array([self._row(content) for content in contents.to_pylist()], self._type)

    def _row(self, content: bytes) -> dict[str, object] | None:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            if self._mode is ParseMode.FAILFAST:
                raise TankSourceError(
                    f"content is not a JSON object: {content[:200]!r}; "
                    "leave out mode=FAILFAST to get null for such messages"
                )
            return None
        return {field.name: self._fit(document.get(field.name), field) for field in self._type}

    def _fit(self, value: object, field: pa.Field) -> object:
        """`value` as Arrow's type, or None when it can't be."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if value is None:
            return None
        kind = field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        try:
            if pa.types.is_struct(kind) and isinstance(value, dict):
                return {part.name: self._fit(value.get(part.name), part) for part in kind}
            if pa.types.is_map(kind) and isinstance(value, dict):
                return [(name, self._fit(item, kind.item_field)) for name, item in value.items()]
            if pa.types.is_list(kind) and isinstance(value, list):
                return [self._fit(item, kind.value_field) for item in value]
            if isinstance(value, str):
                return pc.cast(pa.scalar(value), kind).as_py()
            if isinstance(value, bool) != pa.types.is_boolean(kind):
                raise pa.ArrowInvalid("a boolean is no number, nor a number a boolean")
            if isinstance(value, float) and pa.types.is_integer(kind):
                raise pa.ArrowInvalid("a fraction is no whole number")
            return pa.scalar(value, kind).as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if self._mode is ParseMode.FAILFAST:
                raise TankSourceError(
                    f"field {field.name!r} is {value!r}, not {kind}; "
                    "leave out mode=FAILFAST to get null for such fields"
                ) from None
            return None


def _as_read(kind: pa.DataType) -> pa.DataType:
    """What Arrow's reader is told: it takes dates for numbers, so they are read as text and cast."""
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
