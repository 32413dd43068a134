"""The reference of the client in docs/ is that of the code, and has all names."""

from functools import cache
from pathlib import Path

import tank_client
from tank_client import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client-reference.md"

made = cache(reference.reference)


def test_the_reference_is_fresh() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == made(), "run: python -m tank_client.reference > docs/client-reference.md"


def test_the_reference_has_all_names_that_programs_import() -> None:
    headings = {line[5:].rstrip("`") for line in made().splitlines() if line.startswith("### `")}
    names = {heading.split("(")[0].split(":")[0].split(" =")[0] for heading in headings}
    assert names == set(tank_client.__all__)
