"""Scripts of committed offsets: what is taken, and what is told of them."""

from tank_protos.generated.kafka import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicCollection,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.kafka_clients.beside.group_calls import (
    COMMIT,
    FETCH,
    JOIN,
    LEAVE,
    SYNC,
    commit,
    delete_groups,
    fetch,
    fetch_of,
    join,
    leave,
    sync,
)
from tests.kafka_clients.beside.talk import Talk

OLDEST_COMMIT, OLDEST_FETCH = 2, 1
"""The oldest versions that Kafka 4.1 has."""
SEVERAL_SINCE = 8
LONGEST = 4096
"""Of a text beside an offset."""


def in_each_version(talk: Talk) -> None:
    """A client of no group commits in each version, and fetches in each version."""
    topic, line = talk.topic("t"), talk.line()
    for version in range(OLDEST_COMMIT, COMMIT + 1):
        group = talk.group(str(version))
        line.ask("commits", commit(group, topic, 7, 0, metadata="a text", epoch=0), version)
        line.ask("commits less", commit(group, topic, 3, metadata=None), version)
    group = talk.group(str(COMMIT))
    for version in range(OLDEST_FETCH, FETCH + 1):
        if version < SEVERAL_SINCE:
            line.ask("fetches", fetch(group, topic, 0, 1, 2), version)
            line.ask("fetches of no group", fetch(talk.group("none"), topic, 0), version)
            line.ask("fetches no partitions", fetch(group, topic), version)
            line.ask("fetches what is not there", fetch(group, topic, 99), version)
            line.ask("fetches no topic", fetch(group, f"{topic}.none", 0), version)
            line.ask("fetches no topics", OffsetFetchRequest(group), version)
            if version > OLDEST_FETCH:
                line.ask("fetches all", fetch(group), version)
                line.ask("fetches all of no group", fetch(talk.group("none")), version)
        else:
            groups = (group, talk.group("none"), talk.group("2"))
            line.ask("fetches of three", fetch_of(*groups, topic=topic, partitions=(0, 1, 2)), version)
            line.ask("fetches all of three", fetch_of(*groups), version)
            line.ask("fetches of no group", OffsetFetchRequest(), version)
            line.ask("fetches twice the same", fetch_of(group, group), version)
            line.ask(
                "fetches what is not there", fetch_of(group, topic=f"{topic}.none", partitions=(0,)), version
            )
    line.ask("fetches what is stable", OffsetFetchRequest(group, None, require_stable=True), 7)


def odd_commits(talk: Talk) -> None:
    """Commits that are refused in part, or only look wrong."""
    topic, group, line = talk.topic("t"), talk.group(), talk.line()
    line.ask("the empty group", commit("", topic, 1), COMMIT)
    line.ask("fetches of the empty group", fetch("", topic, 0), 7)
    line.ask("no topic", commit(group, f"{topic}.none", 1), COMMIT)
    line.ask("a partition that is not there", commit(group, topic, 1, 2, 3, 4, 5), COMMIT)
    line.ask("a negative offset", commit(group, topic, -1), COMMIT)
    line.ask("an offset behind the end", commit(group, topic, 1 << 40), COMMIT)
    line.ask("the longest text", commit(group, topic, 1, metadata="x" * LONGEST), COMMIT)
    line.ask("a text that is too long", commit(group, topic, 2, metadata="x" * (LONGEST + 1)), COMMIT)
    line.ask("a text of many bytes", commit(group, topic, 3, metadata="\u00e9" * (LONGEST // 2 + 1)), COMMIT)
    line.ask("an epoch", commit(group, topic, 4, epoch=99), COMMIT)
    line.ask("a time", commit(group, topic, 5, retention_ms=60_000), 4)
    line.ask("a time of nothing", commit(group, topic, 5, retention_ms=0), 4)
    nothing = commit(group, topic)
    line.ask("no partitions", nothing, COMMIT)
    nothing.topics = []
    line.ask("no topics", nothing, COMMIT)
    line.ask("fetches", fetch(group, topic, 0), 7)
    for version in (8, COMMIT):
        none = talk.group("none")
        line.ask("a generation of no group", commit(none, topic, 1, generation=1), version)
        line.ask("a member of no group", commit(none, topic, 1, member_id="a", generation=1), version)
        line.ask("a member without generation", commit(none, topic, 1, member_id="a"), version)
    line.ask("no group, no topic", commit(talk.group("n"), f"{topic}.none", 1, generation=1), COMMIT)
    line.ask("an instance without generation", commit(group, topic, 1, instance="one"), COMMIT)


def of_an_epoch(talk: Talk) -> None:
    """Fetches that say who asks."""
    topic, group, line = talk.topic("t"), talk.group(), talk.line()
    one = line.ask("one joins", join(group), 3).member_id
    line.ask("one syncs", sync(group, 1, one, {one: b"all"}), SYNC)
    line.ask("one commits", commit(group, topic, 4, member_id=one, generation=1), COMMIT)
    for who, member, epoch in (
        ("one", one, 1),
        ("one, of before", one, 0),
        ("nobody", "nobody", 1),
        ("-", "", 5),
    ):
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, member, epoch, None)])
        line.ask(f"{who} fetches", asked, FETCH)


def offset_delete(group: str, **topics: tuple[int, ...]) -> OffsetDeleteRequest:
    """Deletes offsets; topics: partitions by topic, with `__` for each dot."""
    return OffsetDeleteRequest(
        group,
        OffsetDeleteRequestTopicCollection(
            OffsetDeleteRequestTopic(
                name.replace("__", "."), [OffsetDeleteRequestPartition(each) for each in numbers]
            )
            for name, numbers in topics.items()
        ),
    )


def deleted(talk: Talk) -> None:
    """Offsets are deleted, of groups with members and without."""
    read, other, group, line = talk.topic("read"), talk.topic("other"), talk.group(), talk.line()
    read_, other_ = read.replace(".", "__"), other.replace(".", "__")
    line.ask("of no group", offset_delete(talk.group("none"), **{read_: (0,)}), 0)
    line.ask("of the empty group", offset_delete("", **{read_: (0,)}), 0)
    line.ask("of no group, no topics", offset_delete(talk.group("none")), 0)
    one = line.ask("one joins", join(group, topics=(read,)), 3).member_id
    line.ask("one syncs", sync(group, 1, one, {one: b"all"}), SYNC)
    for topic in (read, other):
        line.ask("commits", commit(group, topic, 1, 2, member_id=one, generation=1), COMMIT)
    both = {read_: (0, 3), other_: (0, 3, 99), f"{other_}__none": (0,)}
    line.ask("of a group with a member", offset_delete(group, **both), 0)
    line.ask("fetches", fetch(group), 7)
    line.ask("one leaves", leave(group, (one, None)), LEAVE)
    line.ask("of an empty group", offset_delete(group, **both), 0)
    line.ask("no topics", offset_delete(group), 0)
    line.ask("fetches", fetch(group), 7)
    connect = talk.group("connect")
    line.ask("commits before", commit(connect, read, 1), COMMIT)
    line.ask("a worker joins", join(connect, kind="connect"), 3)
    line.ask("of a group of no consumers", offset_delete(connect, **both), 0)
    unreadable = talk.group("unreadable")
    line.ask("commits before", commit(unreadable, read, 1), COMMIT)
    asked = join(unreadable)
    for each in asked.protocols:
        each.metadata = b"x"
    one = line.ask("one joins with words that can't be read", asked, 3).member_id
    line.ask("one syncs", sync(unreadable, 1, one, {one: b"all"}), SYNC)
    line.ask("of a group that can't be understood", offset_delete(unreadable, **both), 0)


def of_a_deleted_group(talk: Talk) -> None:
    """Offsets begin anew in a group that was deleted and made again."""
    topic, group, line = talk.topic("t"), talk.group(), talk.line()
    line.ask("commits", commit(group, topic, 7, 8), COMMIT)
    line.ask("is deleted", delete_groups(group), 2)
    line.ask("fetches", fetch(group), 7)
    line.ask("commits", commit(group, topic, 1), COMMIT)
    line.ask("fetches", fetch(group), 7)
    one = line.ask("one joins", join(group), JOIN).member_id
    line.ask("one joins with its id", join(group, one), JOIN)
    line.ask("fetches", fetch(group), 7)
