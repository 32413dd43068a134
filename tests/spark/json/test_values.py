"""JSON content in the reader: fast when it fits, and row by row exactly when it doesn't."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_tank.errors import TankSourceError
from pyspark_tank.json.values import JsonDecoder
from pyspark_tank.options import ParseMode

FIELDS = pa.schema([("a", pa.int32()), ("s", pa.string())])


def decode(
    contents: list[bytes], fields: pa.Schema = FIELDS, mode: ParseMode = ParseMode.PERMISSIVE
) -> list[Any]:
    rows: list[Any] = JsonDecoder(fields, mode).decode(pa.array(contents, pa.binary())).to_pylist()
    return rows


def test_objects_become_structs() -> None:
    assert decode([b'{"a":1,"s":"x"}', b' {"s": "y", "z": [1]}', b"{}"]) == [
        {"a": 1, "s": "x"},
        {"a": None, "s": "y"},
        {"a": None, "s": None},
    ]


def test_bad_content_is_nulls_and_the_rest_is_not_touched() -> None:
    good = [b'{"a":%d}' % number for number in range(100)]
    bad = [b"nope", b"[1]", b'{"a":1', b"\xff\xfe", b"null", b'[{"a":1}]', b'\xef\xbb\xbf{"a":1}']
    rows = decode(good[:50] + bad + good[50:])
    assert [row["a"] for row in rows[:50]] == list(range(50))
    assert rows[50 : 50 + len(bad)] == [{"a": None, "s": None}] * len(bad)
    assert [row["a"] for row in rows[50 + len(bad) :]] == list(range(50, 100))


@pytest.mark.parametrize(
    "contents",
    [
        [b'{"a":1}{"a":2}', b""],
        [b'{"a":1}\n{"a":2}', b" "],
        [b'{"s":"}', b'{"s":"}'],
        [b'{"a":[{}', b"{}]}"],
        [b'{"a":1},', b'{"a":2}'],
        [b'{"a":1}{"a":2}', b'{"a":3}'],
        [b'{"l":[{},', b"{}]}", b'{"a":1}{"a":2}'],  # as many objects as contents, were they one text
    ],
)
def test_no_content_reaches_into_the_next(contents: list[bytes]) -> None:
    rows = decode(contents)
    assert len(rows) == len(contents)
    for content, row in zip(contents, rows, strict=True):
        try:
            # Of a content with more than one value the first counts.
            first, _ = json.JSONDecoder().raw_decode(content.decode())
        except ValueError:
            first = {}
        assert row == (dict.fromkeys("as") | first if content.strip() else None) or "l" in first


@given(
    st.lists(
        st.one_of(st.binary(max_size=12), st.sampled_from([b'{"a":1}', b'{"s":"}"}', b"{", b"}"])),
        max_size=20,
    )
)
def test_any_bytes_give_one_row_each(contents: list[bytes]) -> None:
    alone = [decode([content])[0] for content in contents]
    assert decode(contents) == alone


def test_a_field_of_the_wrong_type_is_null_as_in_from_json() -> None:
    assert decode([b'{"a":"x","s":"kept"}', b'{"a":1.5}', b'{"a":true}', b'{"a":99999999999}']) == [
        {"a": None, "s": "kept"},
        {"a": None, "s": None},
        {"a": None, "s": None},
        {"a": None, "s": None},
    ]
    assert decode([b'{"s":5}', b'{"s":{"b":1}}']) == [{"a": None, "s": "5"}, {"a": None, "s": '{"b":1}'}]


def test_times_dates_nested_lists_and_maps() -> None:
    fields = pa.schema(
        [
            ("t", pa.timestamp("us", "UTC")),
            ("d", pa.date32()),
            ("n", pa.struct([("x", pa.float64())])),
            ("l", pa.list_(pa.field("element", pa.int64()))),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    plain = pa.schema(list(fields)[:4])
    content = b'{"t":"2013-01-01T10:00:00Z","d":"2013-01-02","n":{"x":1},"l":[1,2],"m":{"k":3}}'
    (fast,) = decode([content], plain)
    (slow,) = decode([content], fields)
    assert fast == {key: value for key, value in slow.items() if key != "m"}
    assert (
        decode([b'{"t":"2013-01-01 10:00:00"}', b'{"t":"2013-01-01T12:00:00+02:00"}', b"x"], plain)[0]
        == decode([b'{"t":"2013-01-01T12:00:00+02:00"}', b"x"], plain)[0]
    )
    assert str(slow["t"]) == "2013-01-01 10:00:00+00:00"
    assert str(slow["d"]) == "2013-01-02"
    assert slow["n"] == {"x": 1.0}
    assert slow["l"] == [1, 2]
    assert slow["m"] == [("k", 3)]


def test_failfast_says_which_content_it_is() -> None:
    with pytest.raises(TankSourceError, match="nope"):
        decode([b'{"a":1}', b"nope"], mode=ParseMode.FAILFAST)
    with pytest.raises(TankSourceError, match="'a' is 'x'"):
        decode([b'{"a":"x"}'], mode=ParseMode.FAILFAST)


def test_a_slice_is_decoded_by_itself() -> None:
    contents = pa.array([b'{"a":%d}' % number for number in range(10)], pa.binary()).slice(4, 3)
    rows = JsonDecoder(FIELDS, ParseMode.PERMISSIVE).decode(contents).to_pylist()
    assert [row["a"] for row in rows] == [4, 5, 6]
