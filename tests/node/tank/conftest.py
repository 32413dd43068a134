"""What the tests of sessions share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.forwarded import three_leaders


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers that forward; partition n of "a" is led by broker n + 1."""
    cell = three_leaders(tmp_path)
    yield cell
    cell.close()
