"""`make three`: three stock clients, each by its own protocol, in one topic at the same time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("tank", "kafka", "iggy")

pytestmark = pytest.mark.integration


def three(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the example."""
    return subprocess.run(
        [sys.executable, "-m", "examples.three", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patient(200),
        check=False,
    )


@pytest.mark.timeout(240)
def test_each_client_reads_what_all_three_write() -> None:
    pytest.importorskip("apache_iggy")
    pytest.importorskip("confluent_kafka")
    ended = three("--messages", "40")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name in NAMES:
        assert re.search(rf"read by {name} +│ +40 │ +40 │ +40 │", ended.stdout), ended.stdout
    assert "120 messages, which each client has read once, in one order" in ended.stdout


def test_a_client_that_is_missing_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(0o755)
    ended = three("--iggy-python", str(without))
    assert ended.returncode == 1, ended.stdout
    assert f"{without} has no apache_iggy: {without} -m pip install 'apache-iggy>=0.9,<0.10'" in ended.stdout
    assert "starting" not in ended.stdout
