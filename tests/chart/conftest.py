"""All tests of this folder need Helm: they are `make chart`, and in no other target."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks them."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.chart)
