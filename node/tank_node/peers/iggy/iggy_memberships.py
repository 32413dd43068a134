"""A broker speaks for the members of Iggy's groups that are connected to it: it tells their coordinators who
they are, once a second and at each change, and judges polls by what it was told last."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.iggy.consumer_ids import group_consumer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.iggy_requests import IggyMemberName
from tank_node.peers.group_errors import error_code
from tank_node.peers.group_router import GroupRouter, router_of
from tank_node.peers.iggy.iggy_group_here import IggyGroupHere, Settled
from tank_node.peers.iggy.iggy_membership import IggyAssignment, IggyMembership
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated.tank import (
    IggyGroupRequest,
    IggyGroupResponse,
    IggyGroupSaid,
    IggyMemberListed,
    IggyMembersRequest,
    IggyMembersResponse,
)
from tank_protos.wire.message import Message

BEAT_MS: Final = 1_000
"""How often a broker speaks for its members."""
SOON_MS: Final = 100
"""How soon it speaks again when somebody waits, and nobody has answered."""
LONGEST_WAIT_MS: Final = 5_000
"""How long a poll waits to be judged."""
_MOST_SAID: Final = 2_000
"""The most members and groups of one message."""

Listed = Callable[[ErrorCode, Sequence[IggyMemberListed]], None]


class IggyMemberships:
    """All members that are connected to one broker."""

    def __init__(self, broker: Broker, router: GroupRouter) -> None:
        self._broker = broker
        self._router = router
        self._groups: dict[int, IggyGroupHere] = {}
        """By the index of the controllers' log at which they were created."""
        self._of_connection: dict[int, set[int]] = defaultdict(set)
        self._sequence = 0
        """That of the last message."""
        self._beat_ms = 0
        """When it spoke last for all."""
        self._unsaid: set[int] = set()
        """Groups of which something is to be said at the end of the tick."""
        self._waiting: list[tuple[int, Callable[[], bool], Callable[[], None]]] = []
        """Polls that can't be judged: until when they wait, whether they still have to, and what to do."""
        self._sender = Session()
        """Stands for this broker where the way to a coordinator wants a client's connection."""
        self._timer = GroupTimer(broker, self._look, self._stop)

    # --- joining and leaving -----------------------------------------------------------------------

    def join(self, born: int, name: IggyMemberName, done: Settled) -> None:
        """A connection joins a group; again it is no error. Errors: UNKNOWN_GROUP, GROUP_FULL,
        LIMIT_REACHED, LEVEL_TOO_LOW, and those
        after which a client tries again."""
        if self._broker.link.view.feature_level < IGGY:
            done(ErrorCode.LEVEL_TOO_LOW)
            return
        if self._broker.link.view.iggy.group_born(born) is None:
            done(ErrorCode.UNKNOWN_GROUP)
            return
        members = sum(len(group.members) for group in self._groups.values())
        if members >= self._broker.limits.iggy_members:
            self._broker.metrics.refused["iggy_members"] += 1
            done(ErrorCode.LIMIT_REACHED)
            return
        group = self._groups.get(born)
        if group is None:
            group = self._groups[born] = IggyGroupHere(born)
        self._of_connection[name.connection].add(born)
        group.add(name, self._sequence + 1, self._now_ms(), done)
        self._say_soon(born)

    def leave(self, born: int, connection: int, done: Settled) -> None:
        """A connection leaves a group. Errors: UNKNOWN_MEMBER."""
        group = self._groups.get(born)
        if group is None or connection not in group.members:
            done(ErrorCode.UNKNOWN_MEMBER)
            return
        self._of_connection[connection].discard(born)
        group.remove(connection, self._sequence + 1, self._now_ms(), done)
        self._say_soon(born)

    def ended(self, connection: int) -> None:
        """A connection has ended: it leaves all its groups."""
        for born in self._of_connection.pop(connection, ()):
            group = self._groups.get(born)
            if group is not None and connection in group.members:
                group.remove(connection, self._sequence + 1, self._now_ms(), _ignore)
                self._say_soon(born)

    def groups_of(self, connection: int) -> list[int]:
        """The groups that a connection is a member of, by their age."""
        found = self._of_connection.get(connection, ())
        return sorted(born for born in found if self._member(born, connection) is not None)

    # --- polls -------------------------------------------------------------------------------------

    def _member(self, born: int, connection: int) -> IggyMembership | None:
        group = self._groups.get(born)
        return None if group is None else group.members.get(connection)

    def _judged(self, born: int, connection: int) -> IggyMembership | ErrorCode:
        """The member, if it is known by now what it has. Errors: UNKNOWN_MEMBER; COORDINATOR_NOT_AVAILABLE
        (nothing that counts was heard)."""
        group = self._groups.get(born)
        member = None if group is None else group.members.get(connection)
        if group is None or member is None:
            return ErrorCode.UNKNOWN_MEMBER
        if not (member.is_member and group.is_current(self._now_ms())):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return member

    def assignment(self, born: int, connection: int) -> IggyAssignment | ErrorCode:
        """What a member may poll."""
        member = self._judged(born, connection)
        if isinstance(member, ErrorCode):
            return member
        return IggyAssignment(member.generation, member.partitions)

    def next_partition(self, born: int, connection: int) -> int | ErrorCode:
        """Begins a poll of the member's next partition; `polled` ends it. Errors: NOTHING_ASSIGNED,
        UNKNOWN_MEMBER, COORDINATOR_NOT_AVAILABLE: see `when_heard`."""
        member = self._judged(born, connection)
        if isinstance(member, ErrorCode):
            return member
        number = member.next_partition()
        if number is None:
            return ErrorCode.NOTHING_ASSIGNED
        member.begin_poll(number)
        return number

    def begin_poll(self, born: int, connection: int, partition: int) -> ErrorCode:
        """Begins a poll of the partition that the client names; `polled` ends it. Errors as of
        `next_partition`."""
        member = self._judged(born, connection)
        if isinstance(member, ErrorCode):
            return member
        if partition not in member.partitions:
            return ErrorCode.NOTHING_ASSIGNED
        member.begin_poll(partition)
        return ErrorCode.NONE

    def polled(self, born: int, connection: int, partition: int, offset: int | None) -> None:
        """Ends a poll that was begun. offset: that of its last message; None: it brought none."""
        member = self._member(born, connection)
        if member is not None:
            member.end_poll(partition, offset)
            self._release(born, member)

    def stored(self, born: int, connection: int, partition: int, offset: int) -> None:
        """A member's offset is stored, or the partition's leader has taken it to be stored soon."""
        member = self._member(born, connection)
        if member is not None:
            member.store(partition, offset)
            self._release(born, member)

    def last_polled(self, born: int, connection: int) -> int | None:
        """The partition that a member polled last: what requests mean that name none."""
        member = self._member(born, connection)
        return None if member is None else member.last_polled

    def when_heard(self, born: int, connection: int, act: Callable[[], None]) -> None:
        """Acts when COORDINATOR_NOT_AVAILABLE is over for a member, or after `LONGEST_WAIT_MS`."""
        until_ms = self._now_ms() + LONGEST_WAIT_MS
        self._waiting.append((until_ms, partial(self._is_unjudged, born, connection), act))
        self._timer.by(self._now_ms() + SOON_MS)

    def _is_unjudged(self, born: int, connection: int) -> bool:
        return self._judged(born, connection) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _release(self, born: int, member: IggyMembership) -> None:
        if member.draining and member.released():
            self._say_soon(born)

    # --- what is said to coordinators ----------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def _say_soon(self, born: int) -> None:
        """Has something said about a group at the end of the tick."""
        if not self._unsaid:
            self._broker.do_early(self._say_unsaid)
        self._unsaid.add(born)
        self._timer.by(self._now_ms() + SOON_MS)

    def _say_unsaid(self) -> None:
        unsaid, self._unsaid = self._unsaid, set()
        self._say(self._groups[born] for born in sorted(unsaid) if born in self._groups)

    def _say(self, groups: Iterable[IggyGroupHere]) -> None:
        """Says what there is to say about these groups, in one message to each coordinator."""
        by_broker: dict[int, list[IggyGroupSaid]] = defaultdict(list)
        for group in groups:
            consumer = group_consumer(group.born)
            leader = self._router.leader_of(consumer)
            if leader == NO_LEADER:
                # The internal topic is created at its first use; what is to be said is said again.
                self._router.service.groups.coordinator_of(consumer, partial(self._found, group.born))
            else:
                by_broker[leader].append(group.said())
        for leader, said in by_broker.items():
            part: list[IggyGroupSaid] = []
            size = 0
            for each in said:
                if part and size + len(each.members) >= _MOST_SAID:
                    self._send(leader, part)
                    part, size = [], 0
                part.append(each)
                size += len(each.members) + 1
            self._send(leader, part)

    def _found(self, born: int, error: GroupError, leader: int) -> None:
        if not error and born in self._groups:
            self._say_soon(born)

    def _send(self, leader: int, said: Sequence[IggyGroupSaid]) -> None:
        link = self._broker.link
        self._sequence += 1
        request = IggyMembersRequest(link.view.broker_id, link.broker_epoch, self._sequence, list(said))
        told = partial(self._told, said, self._sequence, self._now_ms())
        self._router.ask_broker(leader, request, self._sender, told)

    def _told(
        self,
        said: Sequence[IggyGroupSaid],
        sequence: int,
        sent_ms: int,
        answer: Message | GroupError,
    ) -> None:
        """A coordinator has answered a message, or there is no answer."""
        if not isinstance(answer, IggyMembersResponse) or len(answer.groups) != len(said):
            return
        for each, told in zip(said, answer.groups, strict=True):
            group = self._groups.get(each.born)
            if group is None:
                continue
            named = [member.connection for member in each.members]
            settled = group.hear(told, named, sequence, sent_ms)
            for connection in named:
                if connection not in group.members and connection in self._of_connection:
                    self._of_connection[connection].discard(each.born)
            if group.has_released_since(each):
                self._say_soon(each.born)
            elif group.has_released:  # the coordinator could not take it: not at once again, for ever
                self._timer.by(self._now_ms() + SOON_MS)
            for done, error in settled:
                done(error)
        self._judge_waiting()

    # --- time ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        now_ms = self._now_ms()
        late = [answer for group in self._groups.values() for answer in group.expire(now_ms)]
        for done, error in late:
            done(error)
        for born in [born for born, group in self._groups.items() if group.is_over(now_ms)]:
            del self._groups[born]
        waits = [group for group in self._groups.values() if group.waits or group.has_released]
        if now_ms - self._beat_ms >= BEAT_MS:
            self._beat_ms = now_ms
            self._say(list(self._groups.values()))
        elif waits:
            self._say(waits)
        self._judge_waiting()
        if waits or self._waiting:
            self._timer.by(now_ms + SOON_MS)
        elif self._groups:
            self._timer.by(self._beat_ms + BEAT_MS)

    def _judge_waiting(self) -> None:
        now_ms = self._now_ms()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            until_ms, is_unjudged, act = each
            if now_ms < until_ms and is_unjudged():
                self._waiting.append(each)
            else:
                act()

    def _stop(self) -> None:
        """The broker stops, and its connections end with it."""
        waiting, self._waiting = self._waiting, []
        for _, _, act in waiting:
            act()

    # --- for lists -----------------------------------------------------------------------------------

    def describe(self, born: int, sender: Session, done: Listed) -> None:
        """The members of a group, in the order of joining, as its coordinator knows them."""
        request = IggyGroupRequest(born)
        consumer = group_consumer(born)
        leader = self._router.leader_of(consumer)
        if leader == NO_LEADER:
            # No partition of the internal topic has a leader, or there is none: nobody ever joined.
            known = self._router.service.groups.partition_of(consumer)
            done(ErrorCode.NONE if known is None else ErrorCode.COORDINATOR_NOT_AVAILABLE, ())
            return
        self._router.ask_broker(leader, request, sender, partial(_listed, done))


def _listed(done: Listed, answer: Message | GroupError) -> None:
    if isinstance(answer, IggyGroupResponse):
        done(ErrorCode(answer.error), answer.members)
    else:
        error = answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE
        done(error_code(error), ())


def _ignore(error: ErrorCode) -> None:
    """Takes the outcome of a leave that nobody waits for."""


def memberships_of(broker: Broker) -> IggyMemberships:
    """Returns the memberships of one broker's connections; makes them at the first call."""
    return shared(broker, IggyMemberships, _made)


def _made(broker: Broker) -> IggyMemberships:
    return IggyMemberships(broker, router_of(broker))
