"""An operation of an HTTP API as data: its route, its fields, its answer. Pure.

The router and the OpenAPI document are both made from a table of these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final, Generic, TypeVar

from tank_protos.http_api.fields import ApiField, Values

PREFIX: Final = "/api/v1"
N = TypeVar("N", bound=Enum)


@dataclass(slots=True, frozen=True)
class ApiOperation(Generic[N]):
    """An operation of an HTTP API."""

    name: N
    """Its value is OpenAPI's operationId."""
    method: str
    path: str
    """Below PREFIX; parameters in braces."""
    about: str
    answer: str
    """The name of the answer's schema; see `document`."""
    status: HTTPStatus = HTTPStatus.OK
    query: tuple[ApiField, ...] = ()
    body: tuple[ApiField, ...] = ()
    detail: str = ""
    in_path: tuple[ApiField, ...] = ()
    """The path's parameters, in its order."""

    @property
    def changes(self) -> bool:
        """Whether the operation changes something, and so needs a token."""
        return self.method != "GET"


def in_path(path: str, known: Mapping[str, ApiField]) -> tuple[ApiField, ...]:
    """The parameters of a path, by their names in braces."""
    return tuple(known[name] for name in re.findall(r"{(\w+)}", path))


@dataclass(slots=True, frozen=True)
class ApiRequest:
    """A request after its fields were read and checked."""

    path: Values
    query: Values
    body: Values
