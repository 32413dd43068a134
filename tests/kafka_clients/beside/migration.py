"""Scripts of members of both protocols in one group: it changes its kind, there and back."""

from tests.kafka_clients.beside.consumer_groups import LEAVES, Beats, describe, topic_of
from tests.kafka_clients.beside.group_calls import (
    COMMIT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    commit,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.kafka_clients.beside.talk import Talk

GIVEN = b"\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff"
"""An assignment of nothing, as consumers write it."""


def from_classic(talk: Talk) -> None:
    """A member of the other kind joins a classic group of one."""
    topic, group = topic_of(talk, "t"), talk.group()
    line, two, asks = talk.line(), Beats(talk, group, "two"), talk.line()
    one = line.ask("one asks for an id", join(group, topics=(topic,)), JOIN).member_id
    line.ask("one joins", join(group, one, topics=(topic,)), JOIN)
    line.ask("one syncs", sync(group, 1, one, {one: GIVEN}), SYNC)
    two.join(topic)
    describe(asks, "both kinds", group)
    line.ask("one lives", heartbeat(group, 1, one), HEARTBEAT)
    line.ask("one commits", commit(group, topic, 3, member_id=one, generation=1), COMMIT)
    found = line.ask("one joins again", join(group, one, topics=(topic,)), JOIN)
    line.ask("one syncs", sync(group, found.generation_id, one), SYNC)
    line.ask("one lives", heartbeat(group, found.generation_id, one), HEARTBEAT)
    line.ask("one lives, of before", heartbeat(group, 1, one), HEARTBEAT)
    two.beat("lives")
    made = commit(group, topic, 3, member_id=one, generation=found.generation_id)
    line.ask("one commits", made, COMMIT)
    line.ask("one leaves", leave(group, (one, None)), LEAVE)
    two.beat("lives")
    describe(asks, "the new kind alone", group)


def back_to_classic(talk: Talk) -> None:
    """The last member of the new kind leaves a group with a classic one."""
    topic, group = topic_of(talk, "t"), talk.group()
    two, line, asks = Beats(talk, group, "two"), talk.line(), talk.line()
    two.join(topic)
    two.beat("owns all", owned={topic: (0, 1, 2, 3)})
    one = line.ask("one asks for an id", join(group, topics=(topic,)), JOIN).member_id
    found = line.ask("one joins", join(group, one, topics=(topic,)), JOIN)
    line.ask("one syncs", sync(group, found.generation_id, one), SYNC)
    describe(asks, "both kinds", group)
    line.ask("one lives", heartbeat(group, found.generation_id, one), HEARTBEAT)
    two.beat("leaves", LEAVES)
    describe(asks, "classic", group)
    line.ask("one lives", heartbeat(group, found.generation_id, one), HEARTBEAT)
    found = line.ask("one joins", join(group, one, topics=(topic,)), JOIN)
    line.ask("one syncs", sync(group, found.generation_id, one, {one: GIVEN}), SYNC)


def an_empty_group(talk: Talk) -> None:
    """A group without members takes the kind of its next one."""
    topic, group = topic_of(talk, "t"), talk.group()
    line, two, asks = talk.line(), Beats(talk, group, "two"), talk.line()
    line.ask("commits", commit(group, topic, 3), COMMIT)
    two.join(topic)
    describe(asks, "the new kind", group)
    two.beat("leaves", LEAVES)
    describe(asks, "empty", group)
    one = line.ask("one asks for an id", join(group, topics=(topic,)), JOIN).member_id
    found = line.ask("one joins", join(group, one, topics=(topic,)), JOIN)
    line.ask("one syncs", sync(group, found.generation_id, one, {one: GIVEN}), SYNC)
    describe(asks, "classic", group)


def of_other_types(talk: Talk) -> None:
    """A member of the new kind in a group of workers, and in one that gathers its members."""
    topic, group, line = topic_of(talk, "t"), talk.group("workers"), talk.line()
    line.ask("a worker joins", join(group, kind="connect"), 3)
    Beats(talk, group, "two").join(topic)
