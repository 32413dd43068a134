"""Scripts of static members: a process that starts again takes its predecessor's place."""

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
from tests.kafka_clients.beside.talk import Line, Talk


def stable(talk: Talk, group: str, version: int = JOIN) -> tuple[Line, str, Line, str]:
    """Two static members, `one` (the leader) and `two`, that have their assignments in generation 2."""
    first, second = talk.line(), talk.line()
    one = first.ask("one joins", join(group, instance="one"), version).member_id
    first.ask("one syncs", sync(group, 1, one, {one: b"all"}, instance="one"), SYNC)
    second.begin("two joins", join(group, said=b"b", instance="two"), version)
    second.waits()
    first.ask("one joins again", join(group, one, instance="one"), version)
    two = second.end().member_id
    first.ask("one syncs", sync(group, 2, one, {one: b"1", two: b"2"}, instance="one"), SYNC)
    second.ask("two syncs", sync(group, 2, two, instance="two"), SYNC)
    return first, one, second, two


def start_again_in_stable(talk: Talk) -> None:
    """A follower, and then the leader, in each version that knows static members."""
    for version in range(5, JOIN + 1):
        group = talk.group(str(version))
        first, one, second, two = stable(talk, group, version)
        line = talk.line()
        new = line.ask("two starts again", join(group, said=b"b", instance="two"), version).member_id
        first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
        line.ask("the new two syncs", sync(group, 2, new, instance="two"), SYNC)
        line.ask("the new two lives", heartbeat(group, 2, new, "two"), HEARTBEAT)
        second.ask("the old two lives", heartbeat(group, 2, two, "two"), HEARTBEAT)
        second.ask("the old two lives, without its name", heartbeat(group, 2, two), HEARTBEAT)
        leads = line.ask("one starts again", join(group, instance="one"), version).member_id
        line.ask("the new one syncs", sync(group, 2, leads, instance="one"), SYNC)
        line.ask("the new one lives", heartbeat(group, 2, leads, "one"), HEARTBEAT)
        first.ask("the old one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
        line.begin("the new one joins", join(group, leads, instance="one"), version)
        line.waits()
        other = talk.line()
        other.ask("the new two joins", join(group, new, said=b"b", instance="two"), version)
        line.end()


def fenced(talk: Talk) -> None:
    """What a member hears whose place was taken, and one that was never there."""
    topic, group = talk.topic("t"), talk.group()
    _, _, second, two = stable(talk, group)
    line = talk.line()
    new = line.ask("two starts again", join(group, said=b"b", instance="two"), JOIN).member_id
    for who, me, name in (
        ("the old two", two, "two"),
        ("the new two, as one", new, "one"),
        ("the new two, as nobody", new, "nobody"),
        ("the new two, without its name", new, None),
        ("nobody, as two", "nobody", "two"),
        ("an empty id, as two", "", "two"),
    ):
        second.ask(f"{who}, lives", heartbeat(group, 2, me, name), HEARTBEAT)
        second.ask(f"{who}, syncs", sync(group, 2, me, instance=name), SYNC)
        made = commit(group, topic, 1, member_id=me, generation=2, instance=name)
        second.ask(f"{who}, commits", made, COMMIT)
        if me:
            second.ask(f"{who}, joins", join(group, me, said=b"b", instance=name), JOIN)
    second.ask("the old two leaves", leave(group, (two, "two")), LEAVE)
    second.ask("the old two leaves without its name", leave(group, (two, None)), LEAVE)
    second.ask("commits without generation", commit(group, topic, 1, instance="two"), COMMIT)


def removed_by_an_administrator(talk: Talk) -> None:
    """Members that are named by their instance's name alone."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    second.ask("two and three go", leave(group, ("", "two"), ("", "three")), LEAVE)
    second.ask("two lives", heartbeat(group, 2, two, "two"), HEARTBEAT)
    first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
    first.ask("one joins", join(group, one, instance="one"), JOIN)
    first.ask("one goes", leave(group, ("", "one")), 3)
    first.ask("one lives", heartbeat(group, 3, one, "one"), HEARTBEAT)


def start_again_in_completing(talk: Talk) -> None:
    """A process starts again while the group waits for the leader's assignments."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    first.begin("one joins", join(group, one, instance="one"), JOIN)
    first.waits()
    second.ask("two joins", join(group, two, said=b"b", instance="two"), JOIN)
    first.end()
    second.begin("two syncs", sync(group, 3, two, instance="two"), SYNC)
    second.waits()
    line = talk.line()
    line.begin("two starts again", join(group, said=b"b", instance="two"), JOIN)
    second.end()
    line.waits()
    first.ask("one lives", heartbeat(group, 3, one, "one"), HEARTBEAT)
    first.ask("one syncs", sync(group, 3, one, {one: b"1"}, instance="one"), SYNC)
    first.ask("one joins", join(group, one, instance="one"), JOIN)
    line.end()


def start_again_in_preparing(talk: Talk) -> None:
    """A process starts again while the group gathers its members, and while its own join waits."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    second.begin("two joins, other words", join(group, two, said=b"B", instance="two"), JOIN)
    second.waits()
    line = talk.line()
    line.begin("two starts again", join(group, said=b"b", instance="two"), JOIN)
    second.end()
    line.waits()
    first.ask("one joins", join(group, one, instance="one"), JOIN)
    line.end()


def start_again_with_other_words(talk: Talk) -> None:
    """A process starts again, and says something else than its predecessor."""
    group = talk.group()
    first, one, _, _ = stable(talk, group)
    line = talk.line()
    new = line.ask("two starts again, other words", join(group, said=b"B", instance="two"), JOIN).member_id
    first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
    line.ask("the new two syncs", sync(group, 2, new, instance="two"), SYNC)
    line.begin(
        "it knows another protocol, too",
        join(group, said=b"B", instance="two", protocols=("sticky", "range")),
        JOIN,
    )
    line.end()
    first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
    line.ask("it knows another protocol alone", join(group, instance="two", protocols=("sticky",)), JOIN)
    first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)


def alone_with_another_protocol(talk: Talk) -> None:
    """A group's only member starts again, and knows another protocol."""
    group, line = talk.group(), talk.line()
    one = line.ask("one joins", join(group, instance="one"), JOIN).member_id
    line.ask("one syncs", sync(group, 1, one, {one: b"all"}, instance="one"), SYNC)
    line.ask("starts again", join(group, instance="one", protocols=("sticky",)), JOIN)
    line.ask("starts again with both", join(group, instance="one", protocols=("sticky", "range")), JOIN)
