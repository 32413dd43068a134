"""Scripts of joining: who is taken into a group, and as what."""

from tests.kafka_clients.beside.group_calls import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    heartbeat,
    join,
    leave,
    leave_alone,
    sync,
)
from tests.kafka_clients.beside.talk import Talk


def alone_in_each_version(talk: Talk) -> None:
    """A member joins, syncs, says that it lives, and leaves: in each version of these requests."""
    for version in range(JOIN + 1):
        group, line = talk.group(str(version)), talk.line()
        at_sync, at_heartbeat = min(version, SYNC), min(version, HEARTBEAT)
        found = line.ask("joins", join(group), version)
        if found.error_code:
            found = line.ask("joins with its id", join(group, found.member_id), version)
        me, number = found.member_id, found.generation_id
        line.ask("syncs", sync(group, number, me, {me: b"work"}), at_sync)
        line.ask("syncs again", sync(group, number, me), at_sync)
        line.ask("lives", heartbeat(group, number, me), at_heartbeat)
        at_leave = min(version, LEAVE)
        for times in ("leaves", "leaves again"):
            request = leave(group, (me, None)) if at_leave > 2 else leave_alone(group, me)
            line.ask(times, request, at_leave)
        line.ask("lives in an empty group", heartbeat(group, number, me), at_heartbeat)
        line.ask("syncs in an empty group", sync(group, number, me), at_sync)
        line.ask("joins with an old id", join(group, me), version)
        found = line.ask("joins anew", join(group), version)
        if found.error_code:
            line.ask("joins anew with its id", join(group, found.member_id), version)


def refused(talk: Talk) -> None:
    """Joins that are refused, before anything is known of the group."""
    line = talk.line()
    for version in (3, JOIN):
        line.ask("no group", join(""), version)
        line.ask("a session that is too short", join(talk.group(), session_ms=1), version)
        line.ask("a session that is too long", join(talk.group(), session_ms=40_000_000), version)
        line.ask("a negative session", join(talk.group(), session_ms=-1), version)
        line.ask("no kind", join(talk.group(), kind=""), version)
        line.ask("no protocols", join(talk.group(), protocols=()), version)
        line.ask("an id of nobody's", join(talk.group(), "nobody"), version)
        line.ask("an id of nobody's, and no kind", join(talk.group(), "nobody", kind=""), version)
    line.ask("a static member's id of nobody's", join(talk.group(), "nobody", instance="one"), JOIN)
    line.ask("lives, no group", heartbeat("", 1, "nobody"), HEARTBEAT)
    line.ask("lives, a group that isn't there", heartbeat(talk.group("none"), 1, "nobody"), HEARTBEAT)
    line.ask("syncs, no group", sync("", 1, "nobody"), SYNC)
    line.ask("syncs, a group that isn't there", sync(talk.group("none"), 1, "nobody"), SYNC)
    line.ask("syncs, no protocol", sync(talk.group("none"), 1, "nobody", protocol=None), SYNC)
    line.ask("leaves, no group", leave("", ("nobody", None)), LEAVE)
    line.ask("leaves, a group that isn't there", leave(talk.group("none"), ("nobody", None)), LEAVE)
    line.ask("leaves alone, a group that isn't there", leave_alone(talk.group("none"), "nobody"), 2)
    line.ask("leaves alone, no group", leave_alone("", "nobody"), 2)
    line.ask("nobody leaves", leave(talk.group("none")), LEAVE)


def by_protocols(talk: Talk) -> None:
    """Which protocols a group takes, and which one it votes for."""
    group, first, second = talk.group(), talk.line(), talk.line()
    both = ("range", "roundrobin")
    one = first.ask("the first", join(group, protocols=both), 3).member_id
    first.ask("the first syncs", sync(group, 1, one, {one: b"work"}), 3)
    second.ask("another kind", join(group, kind="connect"), 3)
    second.ask("unknown protocols", join(group, protocols=("sticky",)), 3)
    second.ask("no protocols", join(group, protocols=()), 3)
    second.begin("a protocol that both know", join(group, said=b"b", protocols=("sticky", "roundrobin")), 3)
    second.waits()
    first.ask("the first joins again", join(group, one, protocols=both), 3)
    two = second.end().member_id
    first.begin("the leader syncs", sync(group, 2, one, {one: b"1", two: b"2"}, protocol="roundrobin"), 3)
    second.ask("the second syncs", sync(group, 2, two, protocol="roundrobin"), 3)
    first.end()
    first.ask("it knows only the other", join(group, one, protocols=("range",)), 3)
    first.ask("it is of another kind", join(group, one, kind="connect", protocols=both), 3)
    first.ask("the wrong protocol", sync(group, 2, one, protocol="range"), SYNC)
    first.ask("the wrong kind", sync(group, 2, one, kind="connect", protocol="roundrobin"), SYNC)
    first.ask("no kind", sync(group, 2, one, kind=None, protocol="roundrobin"), SYNC)
    first.ask("no protocol", sync(group, 2, one, protocol=None), SYNC)


def alone_with_another_protocol(talk: Talk) -> None:
    """A group's only member joins again, and knows another protocol than before."""
    group, line = talk.group(), talk.line()
    one = line.ask("joins", join(group), 3).member_id
    line.ask("syncs", sync(group, 1, one, {one: b"work"}), 3)
    line.ask("joins again with another protocol", join(group, one, protocols=("roundrobin",)), 3)
    line.ask("joins again with both", join(group, one, protocols=("roundrobin", "range")), 3)


def pending_ids(talk: Talk) -> None:
    """Members that have an id, and have not joined with it."""
    group, first, second, third = talk.group(), talk.line(), talk.line(), talk.line()
    one = first.ask("the first asks for an id", join(group), JOIN).member_id
    first.ask("lives", heartbeat(group, 0, one), HEARTBEAT)
    first.ask("syncs", sync(group, 0, one), SYNC)
    first.ask("joins with it as a static member", join(group, one, instance="one"), JOIN)
    first.ask("joins with it", join(group, one), JOIN)
    first.ask("syncs", sync(group, 1, one, {one: b"work"}), SYNC)
    two = second.ask("the second asks for an id", join(group, said=b"b"), JOIN).member_id
    first.ask("the first lives", heartbeat(group, 1, one), HEARTBEAT)
    three = third.ask("the third asks for an id", join(group, said=b"c"), JOIN).member_id
    second.begin("the second joins", join(group, two, said=b"b"), JOIN)
    second.waits()
    first.ask("the first lives", heartbeat(group, 1, one), HEARTBEAT)
    first.begin("the first joins again", join(group, one), JOIN)
    first.waits()
    third.ask("the third, with an instance's name, leaves", leave(group, (three, "three")), LEAVE)
    third.ask("the third leaves", leave(group, (three, None)), LEAVE)
    first.end()
    second.end()
    third.ask("the third joins all the same", join(group, three, said=b"c"), JOIN)


def of_another_kind(talk: Talk) -> None:
    """A group of no consumers: its members' words are nobody's affair."""
    group, line = talk.group(), talk.line()
    one = line.ask("joins", join(group, kind="connect", protocols=("sessioned", "default")), 3).member_id
    given = sync(group, 1, one, {one: b"work"}, kind="connect", protocol="sessioned")
    line.ask("syncs", given, SYNC)
    line.ask("lives", heartbeat(group, 1, one), HEARTBEAT)
    line.ask("a consumer", join(group), 3)
    line.ask("leaves", leave(group, (one, None)), LEAVE)
    line.ask("a consumer joins when it is empty", join(group), 3)
