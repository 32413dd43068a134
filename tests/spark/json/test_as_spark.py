"""The reader's JSON beside Spark's own `from_json`: the same rows of the same content, good or bad."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_tank.errors import TankSourceError
from pyspark_tank.json.rows import first_value
from pyspark_tank.json.text import double_text
from pyspark_tank.json.values import JsonDecoder
from pyspark_tank.options import ParseMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import NewTopic

pytestmark = pytest.mark.spark

FIELDS = (
    "a INT, s STRING, d DOUBLE, big BIGINT, b BOOLEAN, l ARRAY<INT>, n STRUCT<x: INT, y: STRING>, "
    "ls ARRAY<STRUCT<x: INT>>, t TIMESTAMP, e DECIMAL(5,2)"
)
MORE_FIELDS = f"{FIELDS}, m MAP<STRING, INT>, ms MAP<STRING, STRUCT<x: INT>>, dt DATE, bin BINARY"
"""Beside types that Arrow's reader does not know as Spark does."""

CORRUPT = "_corrupt_record"

WHOLE = [
    b"", b" ", b"\n\t ", b"null", b"nul", b"nope", b"[]", b"[1]", b'[{"a":1}]', b'[{"a":1},{"a":2}]',
    b"5", b'"x"',
    b"true", b"1.5", b"{", b"}", b"{}", b' {"a":1} ', b'{"a":1', b'{"a":1,"s":"x"', b'{"s":"x","a":',
    b'{"a":1}{"a":2}',
    b'{"a":1} x', b'{"a":1},', b'{"s":"k"}}', b'{"a":1}//c', b'{"a":1,}', b"{a:1}", b"{'a':1}",
    b"{'s':'it\\'s'}",
    b"{'s':'\"'}", b'{"s":"it\\\'s"}', b'{"s":"\'a\'"}', b"{'s':\"'a'\"}", b"{'s':'x", b'{"s":"+INF"}',
    b'{"A":1}',
    b'{"a":1,"a":2}', b'{"z":{"y":[1,{}]},"a":3}', b'{"z":nope,"a":3}', b'{"a":3,"z":nope}', b"\xff\xfe",
    b'{"s":"\xff"}', b'\xef\xbb\xbf{"a":1}', b"\x00", b'{"s":"\x00"}', b'{"s":"a\nb"}', b'{"s":"\\ud800"}',
    b'{"s":"\\ud83d\\ude00"}', b'{"s":"\\x"}', b'{"s":"\xc3\xa9"}', b'{"s":{"b":"\xc3\xa9"}}',
    b"\xc2\xa0", b"\x0b{}",
]  # fmt: skip
"""Contents as a whole: bad in each of the ways in which content is bad, and at the edge of it."""

VALUES = {
    "a": ["1", "-0", "01", "+1", "1.0", "1.5", "1e2", ".5", "NaN", "99999999999", '"5"', '" 5"', '""',
          "true",
          "null", "[1]", '{"b":1}', "nope"],
    "s": ['"x"', '""', "5", "1.50", "true", "null", '{"b": 1}', "[1, 2]", '"\\u00e9"',
          "99999999999999999999", "1e2", "-0.0", "12345678.9", "1e-5", "1e400", "NaN",
          '{"b":[1e7,"\\u001f"]}'],
    "d": ["1", "1.5", "-1e3", "1e400", "NaN", "Infinity", "-Infinity", "+INF", "-INF", "+Infinity", "INF",
          '"NaN"',
          '"Infinity"', '"-Infinity"', '"+INF"', '"-INF"', '"+Infinity"', '"INF"', '"nan"', '"1.5"', '""',
          "true"],
    "big": ["1", "1.0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", '"1"'],
    "b": ["true", "false", "null", '"true"', "1", "0"],
    "l": ["[]", "[1,2]", "[1,null]", '[1,"x",3]', "[1.5]", "5", "null", '{"a":1}', "[[1]]", '""'],
    "n": ["{}", '{"x":1,"y":"k"}', '{"x":"bad","y":"k"}', '{"y":5}', "5", "null", "[1]", '""'],
    "ls": ["[]", '[{"x":1}]', '[{"x":1},{"x":"bad"}]', '[1,{"x":1}]', "[null]", '{"x":1}'],
    "t": ['"2013-01-01T10:00:00Z"', '"2013-01-01T10:00:00+02:00"', '"2013-01-01 10:00:00"',
          '"2013-01-01"', '"bad"', '""',
          '"2013-1-1 1:2:3.4567899 Europe/Berlin"', '"2013-01-01T10:00+2"', '"2013-01"',
          '"2013-01-01T24:00"', "5", "-5",
          "1.5", "true"],
    "e": ["1", "1.2", "1.234", "1.235", "-1.235", "999.99", "999.995", "12345", '"1.23"', '"x"', '""',
          "0", "0.001", "true"],
    "m": ["{}", '{"a":1}', '{"a":null}', '{"a":1,"b":"x"}', "[1]", "5", '""'],
    "ms": ['{"a":{"x":1}}', '{"a":{"x":"bad"},"b":{"x":2}}', '{"a":5}'],
    "dt": ['"2013-01-02"', '"2013-1-2"', '"2013"', '"2013-02-30"', '"2013-01-02T10:00:00"', '"bad"', "5",
           '""'],
    "bin": ['"aGVsbG8="', '""', "5", '"!!"'],
}  # fmt: skip
"""By field: values that fit it, and that do not."""

NUMBERS = [
    "1.10", "100.00", "0.0", "-0.0", "-0e0", "1e2", "1E+2", "1e-2", "-2.5E-2", "0.001", "0.00099", "1e-3",
    "0.0001", "9999999.0", "9999999.9", "10000000.0", "10000000.5", "1e7", "-1e7", "1.0E10", "1e15", "1e16",
    "9007199254740993.0", "123456789.123456789", "12345678901234567890.5", "0.30000000000000004",
    "1.00000000000000000000000001", "1.7976931348623157e308", "-1.7976931348623157e308", "1e400", "-1e400",
    "1e9999999999999999999", "1e-9999999999999999999", "1e-400", "4.9e-324", "5e-324", "3e-323",
    "2.2250738585072014e-308", "NaN", "Infinity", "-Infinity", "+INF", "-INF", "1" * 40,
]  # fmt: skip
"""With fractions and exponents, for fields of text: those that all of Java's versions write the same."""
TEXTS = ['"\\u001f\\u001b"', '"\\ud83d\\ude00"', '"\U0001f600"', '"\\ud800"', '"\\u2028\x7f/\\b"']
"""Within objects and lists, for fields of text."""

YEAR_BEYOND_PYTHON = re.compile(rb'"(?:[+-]\d|0|\d{5,})')
ALPHABET = b"{}[]\"':,\\ \n1a.-tn\xc3\xa9\xff\x00"


def contents(seed: int, count: int) -> list[bytes]:
    """Each content and value of the lists, objects of several values, and objects with a byte changed."""
    chance = random.Random(seed)
    made = list(WHOLE)
    made += [
        b'{"%s":%s}' % (name.encode(), text.encode()) for name, texts in VALUES.items() for text in texts
    ]
    while len(made) < count:
        names = chance.sample(sorted(VALUES), chance.randint(1, 4))
        parts = [b'"%s":%s' % (name.encode(), chance.choice(VALUES[name]).encode()) for name in names]
        content = b"{" + b",".join(parts) + b"}"
        # Behind base64 that is cut short, Spark's parser loses its way in JSON that is sound.
        for _ in range(0 if "bin" in names else chance.choice((0, 1, 1, 2))):
            at = chance.randrange(len(content) + 1)
            byte = bytes([chance.choice(ALPHABET)]) if chance.random() < 0.7 else b""
            content = content[:at] + byte + content[at + chance.randint(0, 1) :]
        if chance.random() < 0.1:
            content = content[: chance.randrange(len(content) + 1)]
        if not YEAR_BEYOND_PYTHON.search(content):
            made.append(content)
    return made


def from_json(spark: SparkSession, values: list[bytes], fields: str, **options: str) -> list[Any]:
    """What Spark makes of them."""
    from pyspark.sql import functions as F

    rows = spark.createDataFrame(list(enumerate(map(bytearray, values))), "i INT, value BINARY")
    parsed = F.from_json(F.col("value").cast("string"), fields, options)
    if CORRUPT in fields:  # Spark keeps the bytes of text that is none
        text = F.make_valid_utf8(F.col("r")[CORRUPT])
        rows = rows.select("i", parsed.alias("r")).select("i", F.col("r").withField(CORRUPT, text).alias("r"))
    else:
        rows = rows.select("i", parsed.alias("r"))
    made: list[Any] = rows.orderBy("i").select("r").toArrow().column("r").to_pylist()
    return made


def decoder(fields: str, mode: ParseMode = ParseMode.PERMISSIVE) -> JsonDecoder:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return JsonDecoder(to_arrow_schema(StructType.fromDDL(fields), timezone="UTC"), mode, CORRUPT)


def in_fields_of_text() -> list[bytes]:
    """Numbers, and objects and lists with numbers and texts. Beside those listed, numbers by chance: of few
    digits, as people write them, and of all exponents."""
    chance = random.Random(9)
    few = [
        f"{chance.uniform(-1, 1) * 10 ** chance.randint(-8, 12):.{chance.randint(1, 9)}g}"
        for _ in range(1000)
    ]
    many = [
        f"{chance.choice(('-', ''))}1.{chance.randint(10**6, 10**7 - 1)}e{chance.randint(-300, 300)}"
        for _ in range(1000)
    ]
    numbers = [*NUMBERS, *few, *many]
    inner = [*numbers, *TEXTS]
    shapes = [f'{{"b":{each}}}' for each in inner] + [f"[{each}, 1.50]" for each in inner]
    shapes += [f"{{{each}:[{{}}]}}" for each in TEXTS]
    return [f'{{"s":{each}}}'.encode() for each in [*numbers, *shapes]]


def test_text_of_numbers_is_that_of_java(spark: SparkSession) -> None:
    values = in_fields_of_text()
    wanted = [row["s"] for row in from_json(spark, values, "s STRING")]
    ours = [row["s"] for row in decoder("s STRING").decode(pa.array(values, pa.binary())).to_pylist()]
    assert len(values) > 6000
    unlike = [each for each in zip(values, ours, wanted, strict=True) if each[1] != each[2]]
    if version_of_java(spark) < SHORTEST_SINCE_JAVA:
        assert len(unlike) < len(values) / 500
        unlike = [each for each in unlike if not is_same_but_longer(*each[1:])]
    assert unlike == []


SHORTEST_SINCE_JAVA = 19
DIGITS = re.compile(r"\d(?:\.|\d){14,}(?:E-?\d+)?")
"""A number of at least 15 digits: those that an older Java writes longer than it has to."""


def version_of_java(spark: SparkSession) -> int:
    """That Spark runs on."""
    asked = "java_method('java.lang.System', 'getProperty', 'java.specification.version')"
    return int(spark.sql(f"SELECT {asked} AS version").collect()[0].version)


def is_same_but_longer(ours: str, theirs: str) -> bool:
    """Whether `theirs` says the same double with more digits."""
    long = DIGITS.search(theirs)
    if long is None:
        return False
    short = theirs.replace(long[0], double_text(float(long[0])))
    return short == ours and len(short) < len(theirs)


@pytest.mark.parametrize("fields", [FIELDS, MORE_FIELDS], ids=["types of Arrow's reader", "more types"])
def test_each_content_gives_the_row_that_from_json_gives(spark: SparkSession, fields: str) -> None:
    values = contents(7, 3000)
    ours = decoder(fields)
    wanted = [repr(row) for row in from_json(spark, values, fields)]  # as text, NaN is NaN
    at_once = [repr(row) for row in ours.decode(pa.array(values, pa.binary())).to_pylist()]
    alone = [repr(ours.decode(pa.array([value], pa.binary()))[0].as_py()) for value in values]
    assert differences(values, at_once, wanted) == []
    assert differences(values, alone, wanted) == []


def test_content_that_does_not_fit_goes_into_the_field_for_it(spark: SparkSession) -> None:
    values = contents(8, 1000)
    fields = f"{MORE_FIELDS}, {CORRUPT} STRING"
    wanted = from_json(spark, values, fields, columnNameOfCorruptRecord=CORRUPT)
    ours = decoder(fields).decode(pa.array(values, pa.binary())).to_pylist()
    assert differences(values, [repr(row) for row in ours], [repr(row) for row in wanted]) == []
    kept = [row[CORRUPT] for row in ours if row is not None]
    assert len(kept) > 3 * len([content for content in kept if content is None]) / 2 > 0


def test_failfast_takes_what_from_json_takes_and_refuses_the_rest(spark: SparkSession) -> None:
    ours = decoder(MORE_FIELDS, ParseMode.FAILFAST)
    taken: list[bytes] = []
    for value, row in zip(WHOLE, from_json(spark, WHOLE, f"{MORE_FIELDS}, {CORRUPT} STRING"), strict=True):
        if row is None or row[CORRUPT] is None:  # no field was bad
            taken.append(value)
            assert len(ours.decode(pa.array([value], pa.binary()))) == 1
        else:
            with pytest.raises(TankSourceError, match="FAILFAST"):
                ours.decode(pa.array([value], pa.binary()))
    assert len(from_json(spark, taken, MORE_FIELDS, mode="FAILFAST")) == len(taken)


def test_a_query_has_the_field_for_what_does_not_fit(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add([b'{"a":1}', b"nope", b'{"a":"x"}', b""])
    given = {"servers": topic.servers, "subscribe": topic.name, "valueFormat": "json"}
    reader = spark.read.format("tank").options(**given)
    rows = reader.schema(f"a INT, {CORRUPT} STRING").load().collect()
    assert [tuple(row) for row in rows] == [(1, None), (None, "nope"), (None, '{"a":"x"}'), (None, None)]
    named = reader.options(valueSchema="a INT, bad STRING", columnNameOfCorruptRecord="bad")
    values = [row.value for row in spark.read.format("tank").options(**given).options(
        valueSchema="a INT, bad STRING", columnNameOfCorruptRecord="bad").load().collect()]  # fmt: skip
    assert [None if value is None else tuple(value) for value in values] == [
        (1, None), (None, "nope"), (None, '{"a":"x"}'), None,
    ]  # fmt: skip
    with pytest.raises(Exception, match=r"field `bad` is for content that doesn't fit .* not int"):
        named.option("valueSchema", "a INT, bad INT").schema("a INT, bad INT").load().collect()


def differences(values: list[bytes], ours: list[str], wanted: list[str]) -> list[tuple[bytes, str, str]]:
    """The contents whose rows differ, and both rows.

    Of content that breaks JSON's rules within a list, an object or text, Spark's parser keeps some of the
    other fields, depending on where it finds its way again. The reader gives nulls for all.
    """
    assert len(ours) == len(values) == len(wanted)
    found = zip(values, ours, wanted, strict=True)
    unlike = [(value, mine, theirs) for value, mine, theirs in found if mine != theirs]
    assert len(unlike) <= len(values) / 50
    return [each for each in unlike if not (_breaks_within(each[0]) and ALL_NULL.fullmatch(each[1]))]


ALL_NULL = re.compile(r"\{('\w+': None(, )?)+('_corrupt_record': .+)?\}", re.S)


def _breaks_within(content: bytes) -> bool:
    """Whether it is no JSON, and has more than numbers in it."""
    try:
        first_value(content.decode("utf-8", "replace"))
    except ValueError:
        return any(sign in content[1:] for sign in b"[{\"'")
    return False
