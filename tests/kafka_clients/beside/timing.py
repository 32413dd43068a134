"""Scripts of what ends by itself: sessions, joins, syncs. Their times are seconds; none is measured."""

import time

from tests.kafka_clients.beside.group_calls import HEARTBEAT, JOIN, SYNC, heartbeat, join, sync
from tests.kafka_clients.beside.sharing import two_members
from tests.kafka_clients.beside.talk import Talk

SHORT_MS = 1_000
AWAY_MS = 3_000
"""A rebalance timeout in which several requests are answered, on a busy machine too."""
OVER_S = 2.5
"""A time after which what lasts SHORT_MS has ended, on a busy machine too."""


def a_session_ends(talk: Talk) -> None:
    """A member is silent for longer than its session."""
    group, line = talk.group(), talk.line()
    one = line.ask("joins", join(group, session_ms=SHORT_MS), 3).member_id
    line.ask("syncs", sync(group, 1, one, {one: b"work"}), SYNC)
    time.sleep(OVER_S)
    line.ask("lives", heartbeat(group, 1, one), HEARTBEAT)
    line.ask("syncs", sync(group, 1, one), SYNC)
    line.ask("joins", join(group, one), 3)
    line.ask("joins anew", join(group), 3)


def a_member_does_not_join_again(talk: Talk) -> None:
    """One member joins, and the other does not come in its rebalance timeout."""
    group, first, second = talk.group(), talk.line(), talk.line()
    one = first.ask("one joins", join(group, rebalance_ms=SHORT_MS), 3).member_id
    first.ask("one syncs", sync(group, 1, one, {one: b"work"}), SYNC)
    second.begin("two joins", join(group, said=b"b", rebalance_ms=SHORT_MS), 3)
    second.waits()
    two = second.end().member_id
    first.ask("one lives", heartbeat(group, 1, one), HEARTBEAT)
    first.ask("one joins late", join(group, one), 3)
    second.ask("two syncs", sync(group, 2, two, {two: b"work"}), SYNC)


def a_member_does_not_sync(talk: Talk) -> None:
    """The leader does not sync in the rebalance timeout."""
    group, first, second = talk.group(), talk.line(), talk.line()
    one = first.ask("one joins", join(group, rebalance_ms=SHORT_MS), 3).member_id
    first.ask("one syncs", sync(group, 1, one, {one: b"work"}), SYNC)
    second.begin("two joins", join(group, said=b"b", rebalance_ms=SHORT_MS), 3)
    second.waits()
    first.ask("one joins again", join(group, one, rebalance_ms=SHORT_MS), 3)
    two = second.end().member_id
    second.begin("two syncs", sync(group, 2, two), SYNC)
    second.waits()
    second.end()
    first.ask("one lives", heartbeat(group, 2, one), HEARTBEAT)
    second.ask("two joins again", join(group, two, said=b"b", rebalance_ms=SHORT_MS), JOIN)
    second.ask("two lives", heartbeat(group, 3, two), HEARTBEAT)


def an_id_is_forgotten(talk: Talk) -> None:
    """Nobody joins with an id for as long as the session would be."""
    group, line = talk.group(), talk.line()
    one = line.ask("asks for an id", join(group, session_ms=SHORT_MS), JOIN).member_id
    time.sleep(OVER_S)
    line.ask("joins with it", join(group, one), JOIN)


def a_static_member_is_away(talk: Talk) -> None:
    """A static member does not join again: the others go on without waiting for it longer than the rebalance
    timeout, and it stays a member until its session ends."""
    group, first, second = talk.group(), talk.line(), talk.line()
    one = first.ask("one joins", join(group, instance="one", rebalance_ms=AWAY_MS), JOIN).member_id
    first.ask("one syncs", sync(group, 1, one, {one: b"work"}, instance="one"), SYNC)
    asked = join(group, said=b"b", rebalance_ms=AWAY_MS, instance="two")
    second.begin("two joins", asked, JOIN)
    second.waits()
    two = second.end().member_id
    second.ask("two syncs", sync(group, 2, two, {one: b"1", two: b"2"}, instance="two"), SYNC)
    first.ask("one lives, of before", heartbeat(group, 1, one, "one"), HEARTBEAT)
    first.ask("one lives", heartbeat(group, 2, one, "one"), HEARTBEAT)
    first.ask("one syncs", sync(group, 2, one, instance="one"), SYNC)


def a_heartbeat_keeps_a_session(talk: Talk) -> None:
    """Silence counts from the last heartbeat on, also while a rebalance runs."""
    group = talk.group()
    first, one, second, two = two_members(talk, group)
    for _ in range(3):
        time.sleep(SHORT_MS / 2000)
        first.ask("one lives", heartbeat(group, 2, one), HEARTBEAT)
    second.begin("two syncs", sync(group, 2, two), SYNC)
    second.waits()
    first.ask("one syncs", sync(group, 2, one, {one: b"1", two: b"2"}), SYNC)
    second.end()
