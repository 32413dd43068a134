"""The figures of `ways` are of what ran."""

import os
import subprocess
import sys

from tests.repository.tree import ROOT
from tests.repository.ways import traced
from tests.support.patience import patient


def test_every_way_is_gone_from_its_beginning_to_its_end() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "tests.repository.ways", "--files"],
        cwd=ROOT, env={**os.environ, "TANK_KERNEL": "pure"}, capture_output=True, text=True, check=True,
        timeout=patient(60),
    ).stdout.splitlines()  # fmt: skip
    rows = [line for line in said[1:] if line and not line.startswith(" ")]
    assert len(rows) == 8
    for row in rows:
        files, classes, moves = (int(figure) for figure in row.split()[-3:])
        assert files <= classes
        assert files <= moves + 1
    produced = said[said.index(rows[0]) + 1 : said.index(rows[0]) + 1 + int(rows[0].split()[-3])]
    assert produced[0].strip() == "node/tank_node/server/loop.py"
    assert "    node/tank_node/segment/segment.py" in produced
    assert "    node/tank_node/server/connection.py" in produced


def test_what_is_not_the_product_is_not_counted() -> None:
    assert not traced(lambda: sorted([3, 1, 2])).files
