"""Tables go into a page between two lines, and nothing else of it changes."""

from pathlib import Path

import pytest

from benchmarks.__main__ import BEGIN, END, put_into, read_frame

DOCS = Path(__file__).parents[2] / "docs"


def test_tables_take_the_place_of_older_ones(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{BEGIN}\n\nold\n\n{END}\n\nThe end.\n")
    put_into(page, "\nnew\n")
    put_into(page, "\nnewer\n")
    assert page.read_text() == f"# Page\n\n{BEGIN}\n\nnewer\n\n{END}\n\nThe end.\n"


@pytest.mark.parametrize("text", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_page_without_a_place_for_them_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(SystemExit, match="has no lines"):
        put_into(page, "new")
    assert page.read_text() == text


def test_the_page_on_performance_has_the_place() -> None:
    before, after = read_frame(DOCS / "performance.md")
    assert before
    assert after
