"""Patterns of topics' names, beside Python's own engine where that is safe."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.machine.topic_pattern import TopicPattern
from tank_node.coordinators.machine.topics import InvalidPattern
from tests.support.examples import examples

NAMES = st.text("abc.-_1", min_size=1, max_size=8)


def patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(("a", "b", "c", r"\.", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\w", "-", "_"))
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})"),
            st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"))).map(
                lambda each: f"(?:{each[0]}){each[1]}"
            ),
        ),
        max_leaves=6,
    )


@examples(400)
@given(patterns(), st.lists(NAMES, min_size=1, max_size=8))
def test_a_pattern_matches_what_pythons_engine_matches(pattern: str, names: list[str]) -> None:
    found = TopicPattern(pattern)
    for name in names:
        assert found.matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders-1", "my-orders"]),
        ("orders.*", ["orders", "orders-eu"], ["my-orders"]),
        ("^orders-.+$", ["orders-1"], ["orders-", "my-orders-1"]),
        ("orders|bills", ["orders", "bills"], ["ordersbills"]),
        (r"a\.b", ["a.b"], ["axb"]),
        (r"\Aa\z", ["a"], ["aa"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("[]a]+", ["a", "aa"], ["b"]),
        ("[a-]+", ["a-", "-"], ["b"]),
        (r"[\d-]+", ["1-2"], ["a"]),
        ("a()b", ["ab"], ["a"]),
        ("(a|)b", ["ab", "b"], ["a"]),
        ("é", [], ["e"]),
        ("a$b", [], ["ab"]),
        (r"\s", [], ["a"]),
        (r"\S\W", ["a-", "a."], ["ab", "a_"]),
        (r"\D+", ["ab-"], ["a1"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    found = TopicPattern(pattern)
    assert [name for name in (*matching, *others) if found.matches(name)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[a", "[", "*a", "a**", "a{2}{3}", "a{", "a{x}", "a{2,1}", "a{1001}", "\\",
        r"\b", r"\pL", "(?i)a", "(?P<n>a)", "(?=a)", "[[:alpha:]]", "[b-a]", r"[\b]", "a" * 1_001,
        "(a{100}){100}", "((((a{9}){9}){9}){9})", "(" * 60 + ")" * 60,
    ],
)  # fmt: skip
def test_what_is_no_pattern_or_too_large_a_one_is_refused_with_a_sentence(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="regular expression"):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$b", ".*.*.*.*.*.*b", "(.*a){12}b", "(a?){50}a{50}"]
)
def test_a_pattern_that_makes_other_engines_hang_costs_little(pattern: str) -> None:
    found = TopicPattern(pattern)
    began = time.process_time()
    names = ["a" * 249, "ab" * 124, "a" * 248 + "b", "b" * 249]
    try:
        for name in names * 10:
            found.matches(name)
    except InvalidPattern as error:
        assert "costs too much" in str(error)  # noqa: PT017 - either is right
    assert time.process_time() - began < 3, "a backtracking engine takes years"


def test_a_pattern_that_costs_too_much_is_refused() -> None:
    found = TopicPattern("(.{0,30}a){10}b")
    names = [f"{number:b}".replace("0", "a").replace("1", "b") * 6 for number in range(100_000, 105_000)]
    with pytest.raises(InvalidPattern, match="costs too much"):
        for name in names:
            found.matches(name)
