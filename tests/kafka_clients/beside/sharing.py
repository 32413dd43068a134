"""Scripts of members that share a group: generations, and what is right and wrong in each state."""

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


def two_members(talk: Talk, group: str) -> tuple[Line, str, Line, str]:
    """Two members of generation 2, which owe a sync. Returns their connections and ids, the leader's
    first."""
    first, second = talk.line(), talk.line()
    one = first.ask("one joins", join(group), 3).member_id
    first.ask("one syncs", sync(group, 1, one, {one: b"all"}), 3)
    second.begin("two joins", join(group, said=b"b"), 3)
    second.waits()
    first.ask("one joins again", join(group, one), 3)
    return first, one, second, second.end().member_id


def stable(talk: Talk, group: str) -> tuple[Line, str, Line, str]:
    """Two members that have their assignments in generation 2."""
    first, one, second, two = two_members(talk, group)
    first.ask("one syncs", sync(group, 2, one, {one: b"1", two: b"2"}), 3)
    second.ask("two syncs", sync(group, 2, two), 3)
    return first, one, second, two


def a_rebalance(talk: Talk) -> None:
    """From one generation to the next, with what is answered at each step."""
    topic, group = talk.topic("t"), talk.group()
    first, one, second, two = two_members(talk, group)
    first.ask("completing: one lives", heartbeat(group, 2, one), HEARTBEAT)
    first.ask("completing: one commits", commit(group, topic, 5, member_id=one, generation=2), COMMIT)
    first.ask("completing: one, of before", commit(group, topic, 5, member_id=one, generation=1), COMMIT)
    second.begin("two syncs first", sync(group, 2, two), SYNC)
    second.waits()
    given = {one: b"1", two: b"2", "nobody": b"3"}
    first.ask("the leader syncs", sync(group, 2, one, given), SYNC)
    second.end()
    second.ask("two syncs again", sync(group, 2, two), SYNC)
    first.ask("the leader brings others", sync(group, 2, one, {one: b"x", two: b"y"}), SYNC)
    second.ask("two syncs once more", sync(group, 2, two, {two: b"z"}), SYNC)
    for name, generation in (("before", 1), ("none", -1), ("zero", 0), ("later", 3)):
        first.ask(f"lives, {name}", heartbeat(group, generation, one), HEARTBEAT)
        first.ask(f"syncs, {name}", sync(group, generation, one), SYNC)
        made = commit(group, topic, 5, member_id=one, generation=generation)
        first.ask(f"commits, {name}", made, COMMIT)
    first.ask("commits", commit(group, topic, 6, member_id=one, generation=2), COMMIT)
    first.ask("commits as nobody", commit(group, topic, 7), COMMIT)
    first.ask("commits as another", commit(group, topic, 7, member_id="nobody", generation=2), COMMIT)
    third = talk.line()
    third.begin("three joins", join(group, said=b"c"), 3)
    third.waits()
    first.ask("preparing: one lives", heartbeat(group, 2, one), HEARTBEAT)
    first.ask("preparing: one lives, later", heartbeat(group, 3, one), HEARTBEAT)
    first.ask("preparing: one syncs", sync(group, 2, one), SYNC)
    first.ask("preparing: one syncs, later", sync(group, 3, one), SYNC)
    first.ask("preparing: one commits", commit(group, topic, 8, member_id=one, generation=2), COMMIT)
    first.ask("preparing: one, of before", commit(group, topic, 8, member_id=one, generation=1), COMMIT)
    first.begin("one joins", join(group, one), 3)
    first.waits()
    second.ask("two leaves", leave(group, (two, None)), LEAVE)
    first.end()
    three = third.end().member_id
    third.ask("three leaves while one owes a sync", leave(group, (three, None)), LEAVE)
    first.ask("one lives", heartbeat(group, 3, one), HEARTBEAT)
    first.ask("one syncs", sync(group, 3, one, {one: b"1"}), SYNC)
    first.ask("one joins alone", join(group, one), 3)
    first.ask("one leaves", leave(group, (one, None)), LEAVE)
    first.ask("empty: commits as one", commit(group, topic, 9, member_id=one, generation=4), COMMIT)
    first.ask("empty: commits as nobody", commit(group, topic, 9), COMMIT)
    first.ask("empty: one, without generation", commit(group, topic, 9, member_id=one), COMMIT)
    first.ask("empty: nobody, with generation", commit(group, topic, 9, generation=4), COMMIT)


def joins_again_in_stable(talk: Talk) -> None:
    """A member of a stable group joins again: with the same words, and with others."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    second.ask("two, the same", join(group, two, said=b"b"), JOIN)
    second.ask("two lives", heartbeat(group, 2, two), HEARTBEAT)
    second.ask("two syncs", sync(group, 2, two), SYNC)
    second.begin("two, other words", join(group, two, said=b"B"), JOIN)
    second.waits()
    first.ask("one lives", heartbeat(group, 2, one), HEARTBEAT)
    first.ask("one joins", join(group, one), JOIN)
    second.end()
    first.ask("one syncs", sync(group, 3, one, {one: b"1", two: b"2"}), SYNC)
    second.ask("two syncs", sync(group, 3, two), SYNC)
    first.begin("the leader, the same", join(group, one), JOIN)
    first.waits()
    second.ask("two lives", heartbeat(group, 3, two), HEARTBEAT)
    second.ask("two joins", join(group, two, said=b"B"), JOIN)
    first.end()


def joins_again_in_completing(talk: Talk) -> None:
    """A member that owes a sync joins again instead."""
    group = talk.group()
    first, one, second, two = two_members(talk, group)
    second.ask("two, the same", join(group, two, said=b"b"), JOIN)
    first.ask("the leader, the same", join(group, one), JOIN)
    first.begin("the leader, other words", join(group, one, said=b"A"), JOIN)
    first.waits()
    second.ask("two lives", heartbeat(group, 2, two), HEARTBEAT)
    second.ask("two syncs", sync(group, 2, two), SYNC)
    second.ask("two joins", join(group, two, said=b"b"), JOIN)
    first.end()
    second.begin("two syncs", sync(group, 3, two), SYNC)
    second.waits()
    other = talk.line()
    other.begin("one joins, other words, while two waits", join(group, one, said=b"a"), JOIN)
    second.end()
    second.ask("two joins", join(group, two, said=b"b"), JOIN)
    other.end()


def the_leader_leaves(talk: Talk) -> None:
    """The other member leads when the leader is gone, in each state."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    first.ask("the leader leaves", leave(group, (one, None)), LEAVE)
    second.ask("two lives", heartbeat(group, 2, two), HEARTBEAT)
    second.ask("two joins", join(group, two, said=b"b"), JOIN)
    second.ask("two syncs", sync(group, 3, two, {two: b"2"}), SYNC)
    group = talk.group("completing")
    first, one, second, two = two_members(talk, group)
    second.begin("two syncs", sync(group, 2, two), SYNC)
    second.waits()
    first.ask("the leader leaves without a sync", leave(group, (one, None)), LEAVE)
    second.end()
    second.ask("two joins", join(group, two, said=b"b"), JOIN)
    group = talk.group("preparing")
    first, one, second, two = stable(talk, group)
    second.begin("two joins, other words", join(group, two, said=b"B"), JOIN)
    second.waits()
    first.ask("the leader leaves instead of joining", leave(group, (one, None)), LEAVE)
    second.end()


def several_leave(talk: Talk) -> None:
    """Members are named together when they leave."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    first.ask("one, nobody and one again", leave(group, (one, None), ("nobody", None), (one, None)), LEAVE)
    second.ask("no id at all", leave(group, ("", None)), LEAVE)
    second.ask("an instance that there is not", leave(group, ("", "x")), LEAVE)
    second.ask("two, as an instance", leave(group, (two, "x")), LEAVE)
    second.ask("two lives", heartbeat(group, 2, two), HEARTBEAT)
    second.ask("two", leave(group, (two, None)), 3)


def asks_twice(talk: Talk) -> None:
    """A member's client asks again over another connection while its first question waits."""
    group = talk.group()
    first, one, second, two = stable(talk, group)
    again = talk.line()
    second.begin("two joins, other words", join(group, two, said=b"B"), JOIN)
    second.waits()
    again.begin("two joins over another connection", join(group, two, said=b"B"), JOIN)
    again.waits()
    second.waits()
    first.ask("one joins", join(group, one), JOIN)
    again.end()
    second.waits()
    twice = talk.line()
    again.begin("two syncs", sync(group, 3, two), SYNC)
    again.waits()
    twice.begin("two syncs over another connection", sync(group, 3, two), SYNC)
    twice.waits()
    again.waits()
    first.ask("one syncs", sync(group, 3, one, {one: b"1", two: b"2"}), SYNC)
    twice.end()
    again.waits()
