"""The assignors, against slow and obvious ones."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.machine.assignors import Assignor, Subscriber, by_range, uniform
from tank_node.coordinators.machine.topics import Place, Places
from tests.support.examples import examples

TOPICS = (b"a", b"b", b"c")
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 5) for topic in TOPICS})
NAMES = ("k", "l", "m", "n")


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[dict[str, Subscriber], dict[bytes, int]]:
    """Members, and the topics; what the members had before has no owner twice."""
    counts = draw(COUNTS)
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    common = draw(st.frozensets(st.sampled_from(TOPICS)))
    owners = draw(
        st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 6)), st.sampled_from(NAMES))
    )
    members = {}
    for name in names:
        topics = common if alike else draw(st.frozensets(st.sampled_from(TOPICS)))
        had = frozenset(place for place, owner in owners.items() if owner == name)
        held = frozenset(draw(st.sets(st.sampled_from(sorted(had))))) if had else frozenset()
        members[name] = Subscriber(name, topics, had, held)
    return members, counts


def all_places(members: dict[str, Subscriber], counts: dict[bytes, int]) -> set[Place]:
    read = {topic for member in members.values() for topic in member.topics}
    return {(topic, number) for topic in read for number in range(counts[topic])}


def check_owners(members: dict[str, Subscriber], counts: dict[bytes, int], found: dict[str, Places]) -> None:
    assert found.keys() == members.keys()
    given_out = [place for places in found.values() for place in places]
    assert len(given_out) == len(set(given_out)), "a partition has two owners"
    assert set(given_out) == all_places(members, counts)
    for member_id, places in found.items():
        assert {topic for topic, _ in places} <= members[member_id].topics


@pytest.mark.parametrize("assign", [uniform, by_range])
@examples(300)
@given(group=groups())
def test_every_partition_has_one_owner_who_reads_its_topic(
    assign: Assignor, group: tuple[dict[str, Subscriber], dict[bytes, int]]
) -> None:
    check_owners(*group, assign(*group))


@pytest.mark.parametrize("assign", [uniform, by_range])
@examples(100)
@given(group=groups())
def test_the_order_of_members_means_nothing(
    assign: Assignor, group: tuple[dict[str, Subscriber], dict[bytes, int]]
) -> None:
    members, counts = group
    assert assign(dict(reversed(members.items())), counts) == assign(members, counts)


@examples(300)
@given(groups(alike=True))
def test_uniform_gives_members_that_read_the_same_as_many_or_one_more(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    sizes = [len(places) for places in uniform(*group).values()]
    assert max(sizes) - min(sizes) <= 1


def fewest_moves(members: dict[str, Subscriber], counts: dict[bytes, int]) -> int:
    """How many partitions can stay at most: all ways to say who has one more are tried."""
    places = all_places(members, counts)
    least, more = divmod(len(places), len(members))
    had = {member_id: len(member.target & places) for member_id, member in members.items()}
    return max(
        sum(min(had[member_id], least + (member_id in rich)) for member_id in members)
        for rich in itertools.combinations(members, more)
    )


@examples(300)
@given(groups(alike=True))
def test_uniform_moves_as_little_as_it_can(group: tuple[dict[str, Subscriber], dict[bytes, int]]) -> None:
    members, counts = group
    found = uniform(members, counts)
    stayed = sum(len(places & members[member_id].target) for member_id, places in found.items())
    assert stayed == fewest_moves(members, counts)


@examples(200)
@given(groups(alike=True))
def test_uniform_keeps_what_a_member_has_rather_than_what_it_was_only_to_have(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    places = all_places(members, counts)
    for member_id, found in uniform(members, counts).items():
        member = members[member_id]
        there = member.target & places
        if there - member.held & found:
            assert there & member.held <= found


@examples(200)
@given(groups())
def test_uniform_leaves_no_single_move_that_makes_shares_more_alike(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    found = uniform(members, counts)
    for places in found.values():
        for topic, _ in places:
            for other, member in members.items():
                if topic in member.topics:
                    assert len(places) - len(found[other]) <= 1


@examples(100)
@given(groups())
def test_uniform_moves_nothing_when_nothing_has_changed(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    found = uniform(members, counts)
    again = {
        member_id: Subscriber(member.name, member.topics, found[member_id], found[member_id])
        for member_id, member in members.items()
    }
    assert uniform(again, counts) == found


@examples(200)
@given(groups())
def test_range_gives_each_member_a_stretch_of_each_topic(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    found = by_range(members, counts)
    for topic in TOPICS:
        sizes = []
        for member_id, member in members.items():
            numbers = sorted(number for name, number in found[member_id] if name == topic)
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
            if topic in member.topics:
                sizes.append(len(numbers))
        assert not sizes or max(sizes) - min(sizes) <= 1


@examples(200)
@given(groups(alike=True), st.integers(1, 5))
def test_range_keeps_partitions_of_the_same_number_together(
    group: tuple[dict[str, Subscriber], dict[bytes, int]], count: int
) -> None:
    members, _ = group
    found = by_range(members, dict.fromkeys(TOPICS, count))
    for places in found.values():
        numbers = {topic: {number for name, number in places if name == topic} for topic, _ in places}
        assert len({frozenset(each) for each in numbers.values()}) <= 1


def test_a_group_of_many_members_that_read_different_topics_is_shared_in_time() -> None:
    counts = {number.to_bytes(2, "big"): 10 for number in range(100)}
    topics = sorted(counts)
    members = {
        f"m{number}": Subscriber(f"m{number}", frozenset(topics[number % 50 :]), frozenset())
        for number in range(200)
    }
    check_owners(members, counts, uniform(members, counts))
