"""The shapes that the command prints."""

import json
from typing import Any

from click.testing import Result

from tank_cli.shell.output import Json


def parsed(ended: Result) -> Any:
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


def assert_same_shape(found: Any, example: Json, place: str = "") -> None:
    """The same keys and types all the way down; objects whose keys are data (settings, …) by their values."""
    if isinstance(example, dict):
        assert isinstance(found, dict), place
        if place.rsplit(".", 1)[-1] in ("settings", "features", "limits"):
            for value in found.values():
                assert_same_shape(value, next(iter(example.values())), f"{place}.*")
            return
        assert found.keys() == example.keys(), place
        for key, value in example.items():
            assert_same_shape(found[key], value, f"{place}.{key}")
    elif isinstance(example, list | tuple):
        assert isinstance(found, list), place
        for each in found:
            assert_same_shape(each, example[0], f"{place}[]")
    elif isinstance(example, float):
        assert isinstance(found, int | float), place
    else:
        assert type(found) is type(example), place
