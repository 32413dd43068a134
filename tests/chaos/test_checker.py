"""The checker sees each thing that must not be. One history that is right, and one change at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checker import violations
from tests.chaos.record import Fate, History, Recorder, read
from tests.chaos.values import content, name_of

PLACE = ("t", 0)
Messages = list[tuple[int, str]]


def history(tmp_path: Path) -> History:
    """An idempotent writer (a0 to a3) and one without an id (b0 to b2); c saw the first three messages."""
    recorder = Recorder(tmp_path / "lines.jsonl")
    recorder.sent("a", PLACE, 0, True, ["a0", "a1"])
    recorder.told(Fate.STORED, ["a0", "a1"], 1)
    recorder.sent("b", PLACE, 0, False, ["b0"])
    recorder.told(Fate.STORED, ["b0"])
    recorder.sent("a", PLACE, 2, True, ["a2", "a3"])
    recorder.told(Fate.UNKNOWN, ["a2", "a3"])
    recorder.sent("b", PLACE, 1, False, ["b1"])
    recorder.told(Fate.REFUSED, ["b1"])
    recorder.sent("b", PLACE, 2, False, ["b2"])
    recorder.seen("c", PLACE, [1, 2], ["a0", "a1"])
    recorder.seen("c", PLACE, [3], ["b0"])
    recorder.close()
    return read([tmp_path / "lines.jsonl"])


GOOD: Messages = [(1, "a0"), (2, "a1"), (3, "b0"), (4, "a2"), (5, "a3"), (6, "b2")]


def test_the_record_tells_when_a_value_left_and_when_its_fate_was_told(tmp_path: Path) -> None:
    clock = iter([1.0, 1.25, 2.0])
    recorder = Recorder(tmp_path / "lines.jsonl", now=lambda: next(clock))
    recorder.sent("a", PLACE, 0, True, ["a0", "a1"])
    recorder.told(Fate.STORED, ["a0"])
    recorder.sent("a", PLACE, 2, True, ["a2"])
    recorder.close()
    sent = read([tmp_path / "lines.jsonl"]).sent
    times = {value: (its.sent_ms, its.told_ms) for value, its in sent.items()}
    assert times == {"a0": (1000, 1250), "a1": (1000, 0), "a2": (2000, 0)}


def test_a_run_in_which_all_held(tmp_path: Path) -> None:
    right = history(tmp_path)
    assert right.stored() == 3
    assert violations(right, {PLACE: GOOD}) == []
    assert violations(right, {PLACE: GOOD[:3]}) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda log: [*log[:2], (3, "a2")], "LOST: b0"),
        (lambda log: [(1, "b0"), (2, "a0"), (3, "a1")], "MOVED: a0 was acknowledged as t/0 1"),
        (lambda log: [*log, (7, "a3")], "REPEATED: a3 is in t/0 2 times"),
        (lambda log: [*log, (7, "b2")], "REPEATED: b2 is in t/0 2 times"),
        (lambda log: [*log, (7, "nobody's")], 't/0 7 holds "nobody\'s", which nobody sent there'),
        (lambda log: [*log, (7, "b1")], "b1 was refused as not stored, and is in t/0"),
        (lambda log: [*log[:3], (4, "a3"), (5, "a2")], "OUT OF ORDER: in t/0 a2 stands behind a3"),
        (lambda log: [*log[:3], (5, "a2")], "t/0: number 5 follows 3"),
        (lambda log: [(1, "a0"), (2, "a1"), (3, "b2")], "GONE: c saw b0 as t/0 3"),
    ],
)
def test_each_thing_that_must_not_be_is_told(
    tmp_path: Path, changed: Callable[[Messages], Messages], told: str
) -> None:
    found = violations(history(tmp_path), {PLACE: changed(list(GOOD))})
    assert any(told in line for line in found), found


def test_a_consumer_that_begins_late_is_told(tmp_path: Path) -> None:
    seen = history(tmp_path)
    del seen.seen["c"][PLACE][0]
    assert violations(seen, {PLACE: GOOD}) == ["c saw t/0 2 after 0"]


def test_a_consumer_that_goes_back_or_skips_is_told(tmp_path: Path) -> None:
    seen = history(tmp_path)
    seen.seen["c"][PLACE] += [(3, "b0"), (5, "a3")]
    assert violations(seen, {PLACE: GOOD}) == ["c saw t/0 3 after 3", "c saw t/0 5 after 3"]


def test_a_consumer_that_read_to_the_end_and_missed_some_is_told(tmp_path: Path) -> None:
    seen = history(tmp_path)
    seen.through["c"] = [PLACE]
    assert violations(seen, {PLACE: GOOD}) == ["MISSED: c saw t/0 up to 3 of 6"]
    assert violations(seen, {PLACE: GOOD[:3]}) == []


def test_an_empty_log_has_lost_everything(tmp_path: Path) -> None:
    found = violations(history(tmp_path), {})
    assert [line for line in found if line.startswith("LOST")] == [
        f"LOST: {value} was acknowledged and is not in t/0" for value in ("a0", "a1", "b0")
    ]


def test_a_value_that_was_spoiled_on_its_way_has_no_name() -> None:
    whole = content("w:t:0:17")
    assert len(whole) <= 100
    assert name_of(whole) == "w:t:0:17"
    assert name_of(whole[:-1]).startswith("spoiled")
    assert name_of(whole.replace(b":17|", b":18|")).startswith("spoiled")


@pytest.mark.parametrize(("found", "told"), [(7, []), (8, []), (6, ["WENT BACK: g kept t/0 7, and found 6"])])
def test_a_position_never_goes_back(tmp_path: Path, found: int, told: list[str]) -> None:
    recorder = Recorder(tmp_path / "lines.jsonl")
    for number in (5, 7):
        recorder.position("g", PLACE, number, found=False)
    recorder.position("g", PLACE, found, found=True)
    recorder.close()
    assert violations(read([tmp_path / "lines.jsonl"]), {}) == told


def sent_again(tmp_path: Path) -> History:
    """A writer that sends again what was not acknowledged: r0 and r1 in one request, then r2."""
    recorder = Recorder(tmp_path / "lines.jsonl")
    recorder.repeats("r")
    recorder.sent("r", PLACE, 0, False, ["r0", "r1"])
    recorder.told(Fate.STORED, ["r0", "r1"], 3)
    recorder.sent("r", PLACE, 2, False, ["r2"])
    recorder.told(Fate.STORED, ["r2"], 5)
    recorder.close()
    return read([tmp_path / "lines.jsonl"])


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (["r0", "r1", "r0", "r1", "r2"], []),
        (["r0", "r1", "r0", "r1", "r2", "r0", "r1"], []),  # an earlier try that came late
        (["r0", "r2", "r0", "r1", "r2"], ["OUT OF ORDER: in t/0 r1 stands behind r2"]),
        (["r0", "r1", "r0", "r1"], ["LOST: r2 was acknowledged"]),
        (["r0", "r1", "r1", "r0", "r2"], ["MOVED: r0 was acknowledged as t/0 3", "MOVED: r1 was"]),
    ],
)
def test_what_is_sent_again_may_be_there_more_than_once_and_first_in_its_order(
    tmp_path: Path, log: list[str], told: list[str]
) -> None:
    found = violations(sent_again(tmp_path), {PLACE: list(enumerate(log, 1))})
    assert [any(line.startswith(each) for line in found) for each in told] == [True] * len(told)
    assert len(found) == len(told)


def of_a_group(tmp_path: Path) -> History:
    """Two members, of which one comes in for the second generation; the group has read all of GOOD."""
    recorder = Recorder(tmp_path / "group.jsonl")
    recorder.handed("g", ("m", 1), 1, PLACE, [1, 2, 3], ["a0", "a1", "b0"])
    recorder.handed("g", ("n", 1), 2, PLACE, [3, 4], ["b0", "a2"])
    recorder.handed("g", ("n", 1), 2, PLACE, [5, 6], ["a3", "b2"])
    recorder.position("g", PLACE, 2, found=True)
    recorder.position("g", PLACE, 6, found=True)
    recorder.read_by_group("g", [PLACE])
    recorder.close()
    return read([tmp_path / "group.jsonl"])


def test_a_group_that_gives_all_to_one_member_in_each_generation(tmp_path: Path) -> None:
    group = of_a_group(tmp_path)
    assert violations(group, {PLACE: []})[0].startswith("GONE: g was given a0")
    both = history(tmp_path)
    both.handed, both.through_groups, both.positions = group.handed, group.through_groups, group.positions
    assert violations(both, {PLACE: GOOD}) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (lambda r: r.handed("g", ("m", 1), 2, PLACE, [3], ["b0"]), "SHARED: in generation 2 of g both"),
        (lambda r: r.handed("g", ("n", 1), 2, PLACE, [4], ["a2"]), "n was given t/0 4 after 6"),
        (lambda r: r.handed("g", ("n", 3), 4, PLACE, [1, 3], ["a0", "b0"]), "n was given t/0 3 after 1"),
        (lambda r: r.handed("g", ("n", 2), 3, PLACE, [4], ["a3"]), "GONE: g was given a3 as t/0 4"),
        (lambda r: r.position("g", PLACE, 5, found=True), "WENT BACK: g kept t/0 6, and found 5"),
    ],
)
def test_what_a_group_must_not_do(tmp_path: Path, line: Callable[[Recorder], None], told: str) -> None:
    group = of_a_group(tmp_path)
    recorder = Recorder(tmp_path / "more.jsonl")
    line(recorder)
    recorder.close()
    paths = [tmp_path / "lines.jsonl", tmp_path / "group.jsonl", tmp_path / "more.jsonl"]
    history(tmp_path)
    found = violations(read(paths), {PLACE: GOOD})
    assert [each[: len(told)] for each in found] == [told]
    assert group.through_groups == {"g": [PLACE]}


def test_a_static_member_may_be_given_the_same_again_in_its_generation(tmp_path: Path) -> None:
    """It joined again, kept its generation, and begins where the group has committed. It skips nothing."""
    of_a_group(tmp_path)
    recorder = Recorder(tmp_path / "again.jsonl")
    recorder.is_static("n")
    recorder.handed("g", ("n", 1), 2, PLACE, [4, 5, 6], ["a2", "a3", "b2"])
    recorder.close()
    history(tmp_path)
    paths = [tmp_path / "lines.jsonl", tmp_path / "group.jsonl", tmp_path / "again.jsonl"]
    assert violations(read(paths), {PLACE: GOOD}) == []
    skips = Recorder(tmp_path / "skips.jsonl")
    skips.handed("g", ("n", 3), 4, PLACE, [1, 3], ["a0", "b0"])
    skips.close()
    assert violations(read([*paths, tmp_path / "skips.jsonl"]), {PLACE: GOOD}) == [
        "n was given t/0 3 after 1"
    ]


def test_what_a_group_commits_without_being_given_it_is_missed(tmp_path: Path) -> None:
    both = history(tmp_path)
    both.handed, both.through_groups = {}, {"g": [PLACE]}
    assert violations(both, {PLACE: GOOD[:1]})[-1] == "MISSED: g has committed t/0, and never had 1, a0"


def test_members_that_know_no_generation_are_not_compared(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "more.jsonl")
    for member in ("m", "n"):
        recorder.handed("g", (member, 1), -1, PLACE, [1], ["a0"])
    recorder.close()
    history(tmp_path)
    found = violations(read([tmp_path / "lines.jsonl", tmp_path / "more.jsonl"]), {PLACE: GOOD})
    assert found == []
