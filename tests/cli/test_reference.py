"""The reference of the command in docs/ is that of the command."""

from pathlib import Path

from tank_cli import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_reference_is_fresh() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == reference.reference(), "run: python -m tank_cli.reference > docs/cli.md"
