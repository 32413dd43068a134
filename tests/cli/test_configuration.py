"""The page about configuration in docs/ is that of the code."""

from pathlib import Path

from tank_cli import configuration
from tank_node.app.config import OPTIONS
from tank_protos.topic_settings import TopicSettings, from_pairs, in_units, setting_keys, setting_texts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_is_fresh() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == configuration.page(), "run: python -m tank_cli.configuration > docs/configuration.md"


def test_every_option_and_setting_is_on_it() -> None:
    rows = [line for line in configuration.page().splitlines() if line.startswith("| `")]
    for option in OPTIONS:
        assert any(f"`{option.flag}` | `{option.variable}` | `{option.name}`" in row for row in rows)
    assert [text.key for text in setting_texts()] == setting_keys()
    assert all(text.about for text in setting_texts())


def test_the_defaults_on_it_are_the_defaults() -> None:
    shown = {text.key: in_units(text.key, text.default) for text in setting_texts() if text.default}
    assert shown["log.segment.bytes"] == "1g"
    assert shown["log.roll.secs"] == "7d"
    settings = from_pairs(shown)
    assert [row[:2] for row in settings.describe()] == [row[:2] for row in TopicSettings().describe()]
