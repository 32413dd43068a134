"""An HTTP API's description, for openapi.json: made from its table of operations. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tank_protos.http_api.errors import Json
from tank_protos.http_api.fields import ApiField, FieldKind
from tank_protos.http_api.operations import PREFIX, ApiOperation

TEXT: Final[Json] = {"type": "string"}
INTEGER: Final[Json] = {"type": "integer", "minimum": 0}
FLAG: Final[dict[str, Json]] = {"type": "boolean"}
IDS: Final[Json] = {"type": "array", "items": {"type": "integer"}}
OR_NONE: Final[Json] = {"type": ["integer", "null"]}
NEXT: Final[Json] = {
    "type": ["string", "null"],
    "description": "the `after` of the next page; null: this is the last page",
}


def object_of(about: str, **properties: Json) -> dict[str, Json]:
    """The schema of an object in which all keys are always present."""
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "required": list(properties),
    }


def reference(name: str) -> dict[str, Json]:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(name: str) -> dict[str, Json]:
    """A list of objects of a schema of the document."""
    return {"type": "array", "items": reference(name)}


ERROR: Final = object_of(
    "Why not, and what to do", error=object_of("As `tank`'s own errors", code=TEXT, message=TEXT)
)
DESCRIPTION: Final[dict[str, Json]] = {"type": "object", "description": "An OpenAPI document"}


def description(
    title: str, about: str, operations: Iterable[ApiOperation[Any]], schemas: Mapping[str, Json]
) -> dict[str, Json]:
    """The whole description, OpenAPI 3.1. schemas: the answers by name, without those of errors and of this
    description."""
    paths: dict[str, dict[str, Json]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": about},
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: ApiOperation[Any]) -> dict[str, Json]:
    found: dict[str, Json] = {
        "operationId": str(operation.name.value),
        "summary": operation.about,
        "security": [{"token": []}] if operation.changes else [{}, {"token": []}],
        "responses": {
            str(operation.status.value): _answer(operation.about, operation.answer),
            "4XX": _answer("It was not done: the request is to be another, or the cluster first", "Error"),
            "5XX": _answer("It was not done, or its outcome is unknown: look, or ask again", "Error"),
        },
    }
    if operation.detail:
        found["description"] = operation.detail
    parameters = [_parameter(each, "path") for each in operation.in_path]
    parameters += [_parameter(each, "query") for each in operation.query]
    if parameters:
        found["parameters"] = parameters
    if operation.body:
        found["requestBody"] = {
            "required": any(each.required for each in operation.body),
            "content": {"application/json": {"schema": _body(operation.body)}},
        }
    return found


def _answer(about: str, schema: str) -> dict[str, Json]:
    return {"description": about, "content": {"application/json": {"schema": reference(schema)}}}


def _parameter(field: ApiField, place: str) -> dict[str, Json]:
    schema = field.schema()
    found: dict[str, Json] = {"name": field.name, "in": place, "description": schema.pop("description")}
    if field.required:
        found["required"] = True
    if field.kind is FieldKind.TEXTS:
        found["explode"] = True
    return {**found, "schema": schema}


def _body(fields: Sequence[ApiField]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
