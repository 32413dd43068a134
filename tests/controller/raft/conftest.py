"""`pytest tests/controller/raft --rewrite` writes what the scenarios show now into their files."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Known when this folder, or a file in it, is named on the command line."""
    parser.addoption("--rewrite", action="store_true", help="write the scenarios' outcomes into their files")
