"""The schemas of the Kubernetes versions that are supported."""

import functools
import json
from pathlib import Path

import jsonschema
import kubernetes_validate
from kubernetes_validate import utils as kubernetes_schemas

from tests.chart.rendering import Object, key_of

HERE = Path(__file__).parent


OLDEST = (1, 25)


def supported() -> list[str]:
    """Kubernetes' versions from the oldest that the chart takes, of which there are schemas."""
    every = kubernetes_schemas.all_versions()
    versions = {tuple(map(int, version.split(".")[:2])): version for version in every}
    return [version for number, version in sorted(versions.items()) if number >= OLDEST]


@functools.cache
def _faults(text: str, kubernetes: str) -> str:
    one: Object = json.loads(text)
    ours = HERE / "schemas" / f"{one['kind'].lower()}.json"
    try:
        if ours.exists():
            jsonschema.validate(one, json.loads(ours.read_text()))
        else:
            kubernetes_validate.validate(one, kubernetes, strict=True)
    except jsonschema.ValidationError as error:
        return f"{key_of(one)} at {'/'.join(map(str, error.absolute_path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return f"{key_of(one)}: {error.message}"
    return ""


def faults(one: Object, kubernetes: str) -> str:
    """What is wrong with an object; empty when all is well. Those that many combinations have cost once."""
    return _faults(json.dumps(one, sort_keys=True), kubernetes)
