"""Messages' content, JSON objects, to Arrow structs: fast where all of them fit the schema, exact where not.

The fast way hands all contents to Arrow's own JSON reader in one piece. What it refuses is halved down to
small blocks, and a block that is still refused is read one by one, as `from_json` reads: a field that doesn't
fit its type is null, content that is no JSON object is a null struct, or an error (`mode=FAILFAST`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark_tank.errors import TankSourceError
from pyspark_tank.options import ParseMode

if TYPE_CHECKING:
    import pyarrow as pa

# Messages that are read one by one because one of them doesn't fit. Few, so that a bad message costs little;
# not too few, so that a topic full of them doesn't either.
BLOCK = 64

Fit = Callable[[Any], object]


class JsonDecoder:
    """Decodes content by one schema; made once for a task."""

    def __init__(self, fields: pa.Schema, mode: ParseMode) -> None:
        import pyarrow as pa

        self._type = pa.struct(list(fields))
        self._mode = mode
        plain = [pa.field(field.name, _as_read(field.type)) for field in fields]
        self._read_as = pa.schema(plain)
        self._fits = [(field.name, self._fitting(field)) for field in fields]
        self._fast = bool(plain) and all(_readable(field.type) for field in plain)

    def decode(self, contents: pa.Array) -> pa.StructArray:
        """One struct a content, null where it is no JSON object. Raises TankSourceError under FAILFAST."""
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
        return {name: fit(document.get(name)) for name, fit in self._fits}

    def _fitting(self, field: pa.Field) -> Fit:
        """Makes of a value what Arrow can hold as this field: None when it doesn't fit, or an error."""
        convert = self._converter(field.type)
        fail_fast = self._mode is ParseMode.FAILFAST

        def fit(value: object) -> object:
            if value is None:
                return None
            try:
                return convert(value)
            except (TypeError, ValueError, OverflowError):  # Arrow's errors are ValueErrors and TypeErrors
                if not fail_fast:
                    return None
                raise TankSourceError(
                    f"field {field.name!r} is {value!r}, not {field.type}; "
                    "leave out mode=FAILFAST to get null for such fields"
                ) from None

        return fit

    def _converter(self, kind: pa.DataType) -> Fit:
        import pyarrow as pa

        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return lambda value: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        if pa.types.is_boolean(kind):
            return lambda value: _of_types(value, bool)
        if pa.types.is_integer(kind):
            most = 2 ** (kind.bit_width - 1) - 1
            return lambda value: _within(_of_types(value, int), most)
        if pa.types.is_floating(kind):
            return lambda value: float(_of_types(value, int, float))
        if pa.types.is_struct(kind):
            fits = [(part.name, self._fitting(part)) for part in kind]
            return lambda value: {name: fit(_of_types(value, dict).get(name)) for name, fit in fits}
        if pa.types.is_map(kind):
            item = self._fitting(kind.item_field)
            return lambda value: [(name, item(inner)) for name, inner in _of_types(value, dict).items()]
        if pa.types.is_list(kind):
            element = self._fitting(kind.value_field)
            return lambda value: [element(inner) for inner in _of_types(value, list)]
        if pa.types.is_timestamp(kind):
            return lambda value: _time(_of_types(value, str), kind)
        return lambda value: _by_arrow(value, kind)


def _of_types(value: object, *kinds: type) -> Any:
    """The value when its type is exactly one of these: a boolean is no number, nor a fraction an integer."""
    if type(value) not in kinds:
        raise TypeError(kinds)
    return value


def _within(value: int, most: int) -> int:
    if not -most - 1 <= value <= most:
        raise OverflowError(value)
    return value


def _time(value: str, kind: pa.DataType) -> object:
    """An ISO time; one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return _by_arrow(value, kind)
    if kind.tz is None:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _by_arrow(value: object, kind: pa.DataType) -> object:
    """Dates, decimals and rare forms of times, as Arrow reads their text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.scalar(str(_of_types(value, str, int, float))), kind).as_py()


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
