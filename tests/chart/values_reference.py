"""The table of the chart's values, made from values.yaml: `python -m tests.chart.values_reference` writes it.

There each value has a comment above it that begins with `# --`; sections have none.
"""

import json
import re
from dataclasses import dataclass

import yaml

from tests.chart.rendering import CHART

PAGE = "docs/chart-values.md"
HEAD = f"""# Values of the chart

Made by `python -m tests.chart.values_reference > {PAGE}` from `charts/tank/values.yaml`; a test
compares them. `charts/tank/values-production.yaml` has what a production cluster wants beside the defaults. A
value that isn't here, or is of another kind, is refused. [kubernetes.md](kubernetes.md) tells how.

| Value | Default | What for |
|---|---|---|
"""
LINE = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]+):(?P<value>.*)$")


@dataclass(slots=True, frozen=True)
class Value:
    """One value that somebody may set."""

    path: str
    """Its keys with dots between."""
    default: object
    about: str


def values(text: str) -> list[Value]:
    """All that are described, in their order; a value's children have no descriptions of their own."""
    defaults = yaml.load(text, yaml.CSafeLoader)
    found: list[Value] = []
    keys: list[str] = []
    about = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            about = stripped.removeprefix("# -- ")
        elif (match := LINE.match(line)) is not None:
            keys[len(match["indent"]) // 2 :] = [match["key"]]
            if about:
                default = defaults
                for key in keys:
                    default = default[key]
                found.append(Value(".".join(keys), default, about))
            about = ""
    return found


def page() -> str:
    """The whole page."""
    rows = [
        f"| `{each.path}` | `{json.dumps(each.default)}` | {each.about.replace('|', chr(92) + '|')} |\n"
        for each in values((CHART / "values.yaml").read_text())
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
