"""The columns of a read, as Spark's Kafka source has them, and which of them a query gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_tank.errors import SchemaError
from pyspark_tank.options import SourceOptions, ValueFormat

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = "headers"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
"""The column with includeHeaders=true, behind the others, and its type; as in Spark's Kafka source."""
CREATE_TIME = 0  # timestampType: the producer set the time, as in Kafka's CreateTime


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that the reader makes of messages, decided once in the driver and sent to the tasks.

    `names`: the output's columns in order. `json_column`: the column that holds the decoded content; None
    with `flat` set when the content's own fields are the columns, None without it when nothing is decoded.
    """

    names: tuple[str, ...]
    json_column: str | None = None
    flat: bool = False


def columns_of(options: SourceOptions) -> dict[str, str]:
    """The columns that a read may have, and their types."""
    return {**COLUMNS, HEADERS: HEADERS_TYPE} if options.include_headers else COLUMNS


def default_schema(options: SourceOptions) -> str:
    """The schema as DDL when the query names none: all columns; `value` is a struct with `valueSchema`."""
    types = dict(columns_of(options))
    if options.value_format is ValueFormat.JSON:
        if options.value_schema is None:
            raise SchemaError(
                "valueFormat=json needs the fields of the JSON objects: give them by "
                ".option('valueSchema', 'a INT, b STRING') (value becomes a struct, the other columns stay) "
                "or by .schema('a INT, b STRING') (they become the columns)"
            )
        types["value"] = f"struct<{options.value_schema}>"
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def layout_of(schema: StructType, options: SourceOptions) -> Layout:
    """How to fill `schema`. Raises SchemaError for columns that Tank doesn't have."""
    names = tuple(str(name) for name in schema.fieldNames())
    kinds = {str(field.name): str(field.dataType.simpleString()) for field in schema.fields}
    as_json = options.value_format is ValueFormat.JSON
    if as_json and not (
        kinds.get("value", "").startswith("struct<") and set(names) <= set(columns_of(options))
    ):
        _check_corrupt_field(schema, options)
        return Layout(names, flat=True)
    for name, kind in kinds.items():
        if name == "value" and as_json:
            continue
        if columns_of(options).get(name) != kind:
            wanted = ", ".join(
                f"{column} {wanted_kind}" for column, wanted_kind in columns_of(options).items()
            )
            if name == HEADERS and not options.include_headers:
                raise SchemaError("the column `headers` needs .option('includeHeaders', 'true')")
            raise SchemaError(
                f"tank has no column `{name} {kind}`; it has {wanted}: leave out .schema(...), "
                "or add .option('valueFormat', 'json') to have the content decoded into your columns"
            )
    if as_json and "value" in names:
        _check_corrupt_field(schema["value"].dataType, options)
    return Layout(names, json_column="value" if as_json else None)


def _check_corrupt_field(fields: StructType, options: SourceOptions) -> None:
    """Raises SchemaError when the field for content that doesn't fit the schema can't hold that content."""
    for field in fields.fields:
        kind = field.dataType.simpleString()
        if field.name == options.corrupt_field and (kind != "string" or not field.nullable):
            raise SchemaError(
                f"the field `{field.name}` is for content that doesn't fit the schema, so it has to be a "
                f"STRING that may be null, not {kind}: change it, or name another one by "
                "columnNameOfCorruptRecord"
            )
