"""Numbers as Java writes them: at the edges, where no Java is at hand to compare with."""

import math

import pytest

from pyspark_tank.json.text import double_text, json_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.1, "1.1"), (100.0, "100.0"), (-2.5, "-2.5"),
        (0.001, "0.001"), (math.nextafter(0.001, 0), "9.999999999999998E-4"), (9.5e-5, "9.5E-5"),
        (math.nextafter(1e7, 0), "9999999.999999998"), (1e7, "1.0E7"), (-1e7, "-1.0E7"), (1e23, "1.0E23"),
        (10000000.5, "1.00000005E7"), (5e-324, "4.9E-324"), (1e-323, "9.9E-324"), (2e-323, "2.0E-323"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_a_double_is_written_as_java_writes_it(number: float, text: str) -> None:
    assert double_text(number) == text


def test_a_value_is_written_without_spaces_and_with_escapes_of_utf_16() -> None:
    value = {'"': [1, 2.50, None, True, False, math.nan], "\U0001f600": {"é\n\x1f": "\ud800/"}}
    said = r'{"\"":[1,2.5,null,true,false,"NaN"],"\uD83D\uDE00":{"é\n\u001F":"\uD800/"}}'
    assert json_text(value) == said
