"""What the chart's alerts watch, and promtool."""

import os
import shutil

import pytest

WATCHED = {"monitoring": {"rules": {"enabled": True}, "dashboard": {"enabled": True}}}


def program(name: str) -> str:
    """Prometheus' own, where it is installed."""
    found = shutil.which(name, path=os.environ.get("PROMETHEUS_BIN")) or shutil.which(name)
    if found is None:
        pytest.skip(
            f"there is no {name} here: apt-get install prometheus, or say its folder with PROMETHEUS_BIN"
        )
    return found
