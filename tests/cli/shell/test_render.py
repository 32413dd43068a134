"""Messages as text, JSON, hex and by template."""

import json

import pytest

from tank_cli.shell import render
from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.render import MessageColumns

COLUMNS = MessageColumns(
    "flights",
    2,
    [7, 8],
    [1_357_017_420_000, 1_357_017_420_001],
    [b"UA", None],
    [b"first", b"\xff\x1b[31m"],
)


def test_text_in_a_pipe_is_the_bytes_as_they_are() -> None:
    assert render.text_renderer(for_terminal=False, key_separator=None)(COLUMNS) == b"first\n\xff\x1b[31m\n"


def test_text_in_a_terminal_obeys_nothing() -> None:
    shown = render.text_renderer(for_terminal=True, key_separator=None)(COLUMNS)
    assert shown == b"first\n\\xff\\x1b[31m\n"


@pytest.mark.parametrize("for_terminal", [True, False])
def test_text_with_keys(for_terminal: bool) -> None:
    shown = render.text_renderer(for_terminal=for_terminal, key_separator=": ")(COLUMNS)
    assert shown.startswith(b"UA: first\n: ")


def test_json_says_utf8_as_text_and_other_bytes_in_base64() -> None:
    first, second = (json.loads(line) for line in render.json_lines(COLUMNS).splitlines())
    assert first == {
        "topic": "flights",
        "partition": 2,
        "number": 7,
        "timestamp_ms": 1_357_017_420_000,
        "key": "UA",
        "value": "first",
    }
    assert second["key"] is None
    assert second["value_base64"] == "/xtbMzFt"
    assert "value" not in second


def test_json_is_one_line_a_message_whatever_the_value() -> None:
    columns = MessageColumns("t", 0, [1], [0], [None], ["a\nb\u2028c".encode()])
    assert render.json_lines(columns).count(b"\n") == 1


def test_json_in_a_terminal_is_the_same_json_without_signs_to_obey() -> None:
    columns = MessageColumns("t", 0, [1, 2], [0, 0], [None, None], ["a\x9b\u202e\n\x7fé".encode(), b"b"])
    shown = render.json_renderer(for_terminal=True)(columns)
    assert shown.count(b"\n") == 2
    assert not any("\x7f" <= sign <= "\x9f" or sign == "\u202e" for sign in shown.decode())
    assert [json.loads(line) for line in shown.splitlines()] == [
        json.loads(line) for line in render.json_lines(columns).split(b"\n")[:2]
    ]


def test_hex_shows_offset_bytes_and_letters() -> None:
    columns = MessageColumns("t", 0, [1], [0], [b"k"], [b"hello, world 1234\x00"])
    assert render.render_hex(columns).decode().splitlines() == [
        "t/0 1 1970-01-01T00:00:00.000Z key=k 18 bytes",
        "00000000  68 65 6c 6c 6f 2c 20 77  6f 72 6c 64 20 31 32 33  hello, world 123",
        "00000010  34 00                                             4.",
    ]


def test_a_template_fills_its_fields() -> None:
    template = r"{topic}/{partition}\t{number} {time} {timestamp_ms} {key}={value} {size} {{}} {key_hex}"
    shown = render.template_renderer(template, for_terminal=False)(COLUMNS).splitlines()
    assert shown[0] == b"flights/2\t7 2013-01-01T05:17:00.000Z 1357017420000 UA=first 5 {} 5541"
    assert shown[1].startswith(b"flights/2\t8 2013-01-01T05:17:00.001Z 1357017420001 =\xff\x1b[31m 6 {} ")


def test_a_template_in_a_terminal_keeps_its_own_signs_and_escapes_the_messages() -> None:
    shown = render.template_renderer(r"a\tb {value}", for_terminal=True)(COLUMNS)
    assert shown == b"a\tb first\na\tb \\xff\\x1b[31m\n"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{valu}", "Did you mean 'value'?"),
        ("{", "write {{ for"),
        ("a } b", "write }} for"),
        ("{}", "no field"),
    ],
)
def test_a_wrong_template_says_what_is_right(template: str, said: str) -> None:
    with pytest.raises(CliError, match=said.replace("{", r"\{").replace("}", r"\}").replace("?", r"\?")):
        render.parse_template(template)


WITH_HEADERS = MessageColumns(
    "orders",
    0,
    [1, 2],
    [1_357_017_420_000, -1],
    [b"k", None],
    [None, b""],
    [(("source", b"shop"), ("flag", None)), ()],
)


def test_null_and_headers_are_told_in_json_and_hex_and_by_template() -> None:
    first, second = (json.loads(line) for line in render.json_lines(WITH_HEADERS).splitlines())
    assert (first["value"], second["value"]) == (None, "")
    assert first["headers"] == [{"key": "source", "value": "shop"}, {"key": "flag", "value": None}]
    assert "headers" not in second
    assert (first["timestamp_ms"], second["timestamp_ms"]) == (1_357_017_420_000, None)
    lines = render.render_hex(WITH_HEADERS).decode().splitlines()
    assert lines[0].endswith(" key=k null")
    assert lines[1:3] == ["header source=shop", "header flag"]
    assert lines[3].endswith(" 0 bytes")
    shown = render.template_renderer("{number} {headers} {size}.", for_terminal=False)(WITH_HEADERS)
    assert shown == b"1 source=shop,flag 0.\n2  0.\n"
    for for_terminal in (True, False):
        assert render.text_renderer(for_terminal=for_terminal, key_separator=None)(WITH_HEADERS) == b"\n\n"
