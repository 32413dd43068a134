"""Requests about groups, which any broker takes: brings each to the broker that coordinates the groups, which
may be this one, and its answer back.

Another coordinator is asked over the connection for forwarded requests, within that one's bounds of number
and bytes, and for `Limits.group_forward_ms` at most.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommitRequest, CommittedOffset, TopicPartition
from tank_node.peers.group_errors import group_error
from tank_node.peers.group_request import ALL_PARTITIONS, ForwardedGroupRequest
from tank_node.peers.group_service import Asker, GroupService
from tank_node.session import Session
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    PositionToCommit,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC

Told = Callable[[Message | GroupError], None]
"""A callback that gets a coordinator's answer, or why there is none, once."""
_MOST_OFFSET: Final = 2**63 - 2
_LEAST_OFFSET: Final = -1


class GroupRouter:
    """The way to the coordinators, for the clients of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.service = GroupService(broker)
        self._heard: dict[int, int] = {}
        """The highest high-water mark of each partition of the internal topic that a coordinator has told."""

    # --- one coordinator -------------------------------------------------------------------------

    def ask(
        self, group_id: str, request: Message, sender: Session, done: Told, *, lasts: bool = True
    ) -> None:
        """Asks the coordinator of a group. Creates the internal topic at its first use. sender: the client's
        connection, which is held back while too much is on its way. lasts: whether committed positions stay
        until they are deleted."""
        number = self.service.groups.partition_of(group_id)
        heard = 0 if number is None else self.heard(number)  # now, before others can be answered
        at_once = True

        def found(error: GroupError, leader: int) -> None:
            number = self.service.groups.partition_of(group_id)
            if error or number is None:
                done(error or GroupError.NOT_AVAILABLE)
            else:
                known = None if at_once and leader == self._own_id else heard
                asker = Asker(sender.serial, known, lasts, sender.came_from())
                self._ask(leader, number, request, sender, asker, done)

        self.service.groups.coordinator_of(group_id, found)
        at_once = False

    def ask_of_known(self, group_id: str, request: Message, sender: Session, done: Told) -> None:
        """As `ask`, for a request that makes no group. Where this broker has not heard of any group, the
        controllers are asked first whether there are some by now: else a client would be told that what it
        committed by way of another broker is not there."""
        if not self.has_no_groups:
            self.ask(group_id, request, sender, done)
            return

        def looked(is_new: bool) -> None:
            self._broker.begin_tick()
            if not is_new:
                done(GroupError.NOT_AVAILABLE)
            elif self.has_no_groups:
                done(GroupError.UNKNOWN_GROUP)
            else:
                self.ask(group_id, request, sender, done)

        self._broker.link.requests.await_view(looked)

    @property
    def _own_id(self) -> int:
        return self._broker.link.view.broker_id

    @property
    def has_no_groups(self) -> bool:
        """Whether there are no groups anywhere: neither is there the internal topic, nor do the controllers
        hold any."""
        view = self._broker.link.view
        return view.topic(GROUPS_TOPIC) is None and self.service.move.is_done

    def heard(self, number: int) -> int:
        """The highest high-water mark of this partition that this broker has heard of."""
        return max(self._heard.get(number, 0), self.service.mark(number))

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates a group; NO_LEADER: none does now."""
        number = self.service.groups.partition_of(group_id)
        return NO_LEADER if number is None else self._leader(number)

    def ask_broker(self, broker_id: int, request: Message, sender: Session, done: Told) -> None:
        """Asks a broker about what it coordinates, whatever partition that is in."""
        if broker_id == NO_LEADER:
            done(GroupError.NOT_AVAILABLE)
        else:
            asker = Asker(sender.serial, None, host=sender.came_from())
            self._ask(broker_id, ALL_PARTITIONS, request, sender, asker, done)

    def _leader(self, number: int) -> int:
        topic = self._broker.link.view.topic(GROUPS_TOPIC)
        if topic is None or number >= len(topic.partitions):
            return NO_LEADER
        return topic.partitions[number].leader

    def _ask(
        self, leader: int, number: int, request: Message, sender: Session, asker: Asker, done: Told
    ) -> None:
        if leader == self._own_id:
            self.service.serve(request, asker, done)
            return
        broker = self._broker
        forwarded = ForwardedGroupRequest(
            request,
            GroupRequest(
                partition=number, heard=asker.heard or 0, lasts=asker.lasts, client_host=asker.host[:0xFF]
            ),
            broker.tick.monotonic_ms + broker.limits.group_forward_ms,
            partial(self._answered, number, done),
            partial(done, GroupError.NOT_AVAILABLE),
            lambda: number == ALL_PARTITIONS or self._leader(number) == leader,
        )
        if not broker.forwarding.send(leader, forwarded, sender):
            done(GroupError.NOT_AVAILABLE)

    def _answered(self, number: int, done: Told, answer: Message, mark: int) -> None:
        if number != ALL_PARTITIONS:
            self._heard[number] = max(self._heard.get(number, 0), mark)
        done(answer)

    # --- all coordinators ------------------------------------------------------------------------

    def list_groups(self, sender: Session, done: Callable[[ListGroupsResponse | GroupError], None]) -> None:
        """Lists all groups of the cluster, by name: asks every broker that coordinates some."""
        topic = self._broker.link.view.topic(GROUPS_TOPIC)
        if topic is None:
            done(ListGroupsResponse() if self.has_no_groups else GroupError.LOADING)
            return
        leaders = {placed.leader for placed in topic.partitions}
        if NO_LEADER in leaders:
            done(GroupError.NOT_AVAILABLE)
            return
        answers: list[Message | GroupError] = []

        def one_told(answer: Message | GroupError) -> None:
            answers.append(answer)
            if len(answers) == len(leaders):
                done(_joined(answers))

        for leader in leaders:
            self.ask_broker(leader, ListGroupsRequest(version=1), sender, one_told)

    # --- for requests of other protocols ---------------------------------------------------------

    def commit(
        self,
        request: CommitRequest,
        sender: Session,
        done: Callable[[Mapping[TopicPartition, GroupError]], None],
    ) -> None:
        """Commits offsets of a group that any broker may coordinate; each has its own error. Leader epochs
        and times are left out, and the offsets expire by the settings of groups."""
        places = list(request.offsets)
        taken = [place for place in places if _LEAST_OFFSET <= request.offsets[place].offset <= _MOST_OFFSET]
        asked = CommitPositionsRequest(
            version=1,
            group=request.member.group_id,
            member_id=request.member.member_id,
            member_epoch=request.generation,
            positions=[
                PositionToCommit(
                    place[0], place[1], request.offsets[place].offset + 1, request.offsets[place].metadata
                )
                for place in taken
            ],
        )

        def told(answer: Message | GroupError) -> None:
            results = dict.fromkeys(places, GroupError.INVALID_REQUEST)
            if not isinstance(answer, CommitPositionsResponse):
                results |= dict.fromkeys(taken, _refusal(answer))
            elif answer.error or len(answer.results) != len(taken):
                results |= dict.fromkeys(taken, group_error(answer.error) or GroupError.NOT_AVAILABLE)
            else:
                codes = (each.error for each in answer.results)
                results |= {place: group_error(code) for place, code in zip(taken, codes, strict=True)}
            done(results)

        self._ask_if_it_fits(request.member.group_id, asked, sender, told)

    def committed(
        self,
        group_id: str,
        places: Sequence[TopicPartition] | None,
        sender: Session,
        done: Callable[[GroupError, Mapping[TopicPartition, CommittedOffset]], None],
    ) -> None:
        """The offsets of a group that any broker may coordinate, in these partitions, or in all (None)."""

        def told(answer: Message | GroupError) -> None:
            if not isinstance(answer, FetchPositionsResponse):
                done(_refusal(answer), {})
                return
            error = group_error(answer.error)
            if error and error is not GroupError.UNKNOWN_GROUP:
                done(error, {})
                return
            wanted = None if places is None else frozenset(places)
            found = {
                (each.topic, each.partition): CommittedOffset(
                    each.sequence_number - 1, metadata=each.metadata, commit_ms=each.committed_ms
                )
                for each in answer.positions
                if wanted is None or (each.topic, each.partition) in wanted
            }
            done(GroupError.NONE, found)

        self._ask_if_it_fits(group_id, FetchPositionsRequest(group=group_id), sender, told)

    def _ask_if_it_fits(self, group_id: str, request: Message, sender: Session, done: Told) -> None:
        """Asks, unless a name of the request is too long for our own messages."""
        try:
            request.encode()
        except WireError:
            done(GroupError.INVALID_REQUEST)
            return
        self.ask(group_id, request, sender, done, lasts=False)


def _refusal(answer: Message | GroupError) -> GroupError:
    return answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE


def _joined(answers: Sequence[Message | GroupError]) -> ListGroupsResponse | GroupError:
    """The lists of several brokers as one."""
    listed = []
    for answer in answers:
        if not isinstance(answer, ListGroupsResponse):
            return _refusal(answer)
        if answer.error:
            return group_error(answer.error)
        listed += answer.listed
    return ListGroupsResponse(listed=sorted(listed, key=lambda each: each.group))


def router_of(broker: Broker) -> GroupRouter:
    """Returns the way to the coordinators of this broker's clients; makes it at the first call."""
    return shared(broker, GroupRouter, GroupRouter)
