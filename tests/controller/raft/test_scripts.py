"""Every scenario in `scripts/` shows what its file says; `--rewrite` writes it anew (read the diff)."""

from pathlib import Path

import pytest

from tests.controller.raft.scenario import Scenario

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    shown = Scenario().run(text)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(shown)
        return
    assert shown == text


def test_there_are_scenarios_and_each_can_fail() -> None:
    assert len(SCRIPTS) >= 14
    for path in SCRIPTS:
        assert any(line.startswith("    ") for line in path.read_text().splitlines()), path
