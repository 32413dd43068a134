"""Scripts of what tools ask of groups: descriptions, lists, deletions, coordinators."""

import time
from typing import Final

from tank_protos.generated.kafka import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tests.kafka_clients.beside.group_calls import (
    COMMIT,
    JOIN,
    LEAVE,
    SYNC,
    commit,
    delete_groups,
    fetch,
    join,
    leave,
    sync,
)
from tests.kafka_clients.beside.talk import Line, Talk

DESCRIBE, LIST, DELETE, FIND = 6, 5, 2, 6
"""The newest versions of Kafka 4.1."""
OPERATIONS_SINCE: Final = 3
"""The first version of DescribeGroups that may ask for them."""
STATES_SINCE, TYPES_SINCE = 4, 5
KEYS_SINCE: Final = 4
SHOWN_S: Final = 0.5
"""After which Kafka shows a change to tools: they see what is committed, some milliseconds later."""


def described(talk: Talk) -> None:
    """A group in each of its states, in each version."""
    group = talk.group()
    first, second, asks = talk.line(), talk.line(), talk.line()

    def in_each_version(state: str) -> None:
        time.sleep(SHOWN_S)
        for version in range(DESCRIBE + 1):
            asks.ask(state, DescribeGroupsRequest([group]), version)

    in_each_version("not there")
    asks.ask("the empty one, twice", DescribeGroupsRequest(["", ""]), DESCRIBE)
    asks.ask("none", DescribeGroupsRequest(), DESCRIBE)
    one = first.ask("one asks for an id", join(group), JOIN).member_id
    in_each_version("with an id that was given")
    one = first.ask("one joins", join(group, one), JOIN).member_id
    in_each_version("completing")
    first.ask("one syncs", sync(group, 1, one, {one: b"all"}), SYNC)
    in_each_version("stable")
    asks.ask("with operations", DescribeGroupsRequest([group], True), DESCRIBE)
    asks.ask("one that isn't there, with operations", DescribeGroupsRequest([f"{group}?"], True), 5)
    second.begin("two joins", join(group, said=b"b", instance="two"), JOIN)
    second.waits()
    in_each_version("preparing")
    first.ask("one joins", join(group, one), JOIN)
    two = second.end().member_id
    first.ask("one syncs", sync(group, 2, one, {one: b"1", two: b"2"}), SYNC)
    in_each_version("stable, of two")
    asks.ask("one and another", DescribeGroupsRequest([group, f"{group}?", group]), DESCRIBE)
    first.ask("both leave", leave(group, (one, None), ("", "two")), LEAVE)
    in_each_version("empty")
    asks.ask("is deleted", delete_groups(group), DELETE)
    in_each_version("deleted")


class _Listing:
    """Lists, of which a script's own groups alone are noted."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._line = talk.line()

    def ask(self, what: str, request: ListGroupsRequest, version: int) -> None:
        """Asks for a list, and notes it."""
        unnoted = Talk(self._talk.server, self._talk.script)
        found: ListGroupsResponse = unnoted.line().ask(what, request, version)
        found.groups = [each for each in found.groups if each.group_id.startswith(self._talk.script)]
        self._talk.note(f"{what}, v{version}", self._talk.text.of(found))
        unnoted.close()


def listed(talk: Talk) -> None:
    """Groups in lists, by state and by type."""
    topic = talk.topic("t")
    line, waiting, listing = talk.line(), talk.line(), _Listing(talk)
    line.ask("commits alone", commit(talk.group("simple"), topic, 1), COMMIT)
    line.ask("one asks for an id", join(talk.group("pending")), JOIN)
    line.ask("one joins", join(talk.group("completing")), 3)
    group = talk.group("stable")
    one = line.ask("one joins", join(group), 3).member_id
    line.ask("one syncs", sync(group, 1, one, {one: b"all"}), SYNC)
    group = talk.group("empty")
    one = line.ask("one joins", join(group), 3).member_id
    line.ask("one leaves", leave(group, (one, None)), LEAVE)
    line.ask("a worker joins", join(talk.group("preparing"), kind="connect"), 3)
    waiting.begin("another worker joins", join(talk.group("preparing"), kind="connect"), 3)
    waiting.waits()
    for version in range(LIST + 1):
        listing.ask("all", ListGroupsRequest(), version)
    for states in (["Stable"], ["stable", "EMPTY"], ["nonsense"], ["Dead"], ["PreparingRebalance"]):
        listing.ask(f"{states}", ListGroupsRequest(states), STATES_SINCE)
    for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"]):
        listing.ask(f"types {types}", ListGroupsRequest([], types), TYPES_SINCE)
    listing.ask("both", ListGroupsRequest(["Empty"], ["classic"]), TYPES_SINCE)


def deleted(talk: Talk) -> None:
    """Groups are deleted, and made again."""
    topic, line = talk.topic("t"), talk.line()
    for version in range(DELETE + 1):
        group, simple = talk.group(str(version)), talk.group(f"simple{version}")
        one = line.ask("one joins", join(group), 3).member_id
        line.ask("commits", commit(simple, topic, 1), COMMIT)
        names = (group, simple, talk.group("none"), "")
        line.ask("one with a member and one without", delete_groups(*names), version)
        line.ask("the same again", delete_groups(*names), version)
        line.ask("twice in one", delete_groups(simple, simple), version)
        line.ask("fetches", fetch(simple), 7)
        line.ask("one leaves", leave(group, (one, None)), LEAVE)
        line.ask("the empty group", delete_groups(group), version)
        line.ask("none", delete_groups(), version)
    pending = talk.group("pending")
    one = line.ask("one asks for an id", join(pending), JOIN).member_id
    line.ask("a group with an id that was given", delete_groups(pending), DELETE)
    line.ask("one joins with it", join(pending, one), JOIN)


def coordinators(talk: Talk) -> None:
    """Where groups are."""
    line: Line = talk.line()
    for version in range(FIND + 1):
        if version < KEYS_SINCE:
            line.ask("a group", FindCoordinatorRequest(talk.group()), version)
            line.ask("the empty group", FindCoordinatorRequest(""), version)
        else:
            keys = [talk.group(), "", talk.group()]
            line.ask("groups", FindCoordinatorRequest(coordinator_keys=keys), version)
            line.ask("no groups", FindCoordinatorRequest(), version)
            if version < FIND:
                line.ask("other keys", FindCoordinatorRequest(key_type=7, coordinator_keys=keys), version)
    line.ask("another key", FindCoordinatorRequest("x", 7), 3)
