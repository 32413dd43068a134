"""A group's machine, with a clock and a log that tests move."""

from collections.abc import Mapping

from tank_node.coordinators.classic.classic_group import ClassicGroup
from tank_node.coordinators.machine.group_actions import Answer, Store
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_node.coordinators.machine.group_requests import (
    NO_GENERATION,
    CommitRequest,
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue

SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_MS = 3_000
WALL_MS = 1_800_000_000_000
"""The wall clock's time when the monotonic one says 0."""


class Joining:
    """A join that was sent."""

    def __init__(self) -> None:
        self.answers: list[JoinAnswer] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> JoinAnswer:
        (answer,) = self.answers
        return answer

    @property
    def error(self) -> GroupError:
        return self.answer.error


class Syncing:
    """A sync that was sent."""

    def __init__(self) -> None:
        self.answers: list[SyncAnswer] = []

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> SyncAnswer:
        (answer,) = self.answers
        return answer

    @property
    def error(self) -> GroupError:
        return self.answer.error


class Scene:
    """One group. Changes are stored at once, unless `stores_at_once` is False: then by `store` or `fail`."""

    def __init__(
        self,
        *,
        group_id: str = "g",
        initial_delay_ms: int = INITIAL_MS,
        max_size: int = 100,
        limits: GroupLimits | None = None,
        image: GroupMetadataValue | None = None,
    ) -> None:
        self.settings = GroupSettings(
            initial_delay_ms=initial_delay_ms, max_size=max_size, limits=limits or GroupLimits()
        )
        self.now_ms = 0
        self.stores_at_once = True
        self.unstored: list[Store] = []
        self.stored: list[GroupMetadataValue] = []
        self._ids = 0 if image is None else len(image.members)
        if image is None:
            self.group = ClassicGroup(group_id, self.settings, self._new_id)
        else:
            self.group = ClassicGroup.from_image(group_id, self.settings, self._new_id, image, 0)

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        client_id: str = "c",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] | None = None,
        needs_member_id: bool = False,
        may_skip_assignment: bool = False,
    ) -> Joining:
        joining = Joining()
        request = JoinRequest(
            MemberName(self.group.group_id, member_id, instance_id),
            client_id,
            "/10.0.0.7",
            session_ms,
            rebalance_ms,
            protocol_type,
            tuple(({"range": b"m"} if protocols is None else protocols).items()),
            needs_member_id,
            may_skip_assignment,
        )
        self.group.join(self.now_ms, request, joining)
        self.act()
        return joining

    def sync(
        self,
        member: JoinAnswer,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Syncing:
        syncing = Syncing()
        request = SyncRequest(
            MemberName(self.group.group_id, member.member_id, instance_id),
            member.generation if generation is None else generation,
            assignments or {},
            protocol_type,
            protocol,
        )
        self.group.sync(self.now_ms, request, syncing)
        self.act()
        return syncing

    def heartbeat(
        self, member: JoinAnswer, *, generation: int | None = None, instance_id: str | None = None
    ) -> GroupError:
        name = MemberName(self.group.group_id, member.member_id, instance_id)
        number = member.generation if generation is None else generation
        error = self.group.heartbeat(self.now_ms, name, number)
        self.act()
        return error

    def leave(self, *leaving: tuple[str, str | None]) -> list[GroupError]:
        errors = self.group.leave(self.now_ms, leaving)
        self.act()
        return errors

    def commit(
        self,
        member_id: str = "",
        generation: int = NO_GENERATION,
        *,
        instance_id: str | None = None,
        unknown_group: GroupError = GroupError.ILLEGAL_GENERATION,
    ) -> GroupError:
        name = MemberName(self.group.group_id, member_id, instance_id)
        error = self.group.check_commit(self.now_ms, CommitRequest(name, generation, {}, unknown_group))
        self.act()
        return error

    # What the world does

    def act(self) -> None:
        """What the machine wants done is done."""
        for action in self.group.take_actions(WALL_MS + self.now_ms):
            if isinstance(action, Store):
                self.unstored.append(action)
                continue
            assert isinstance(action, Answer)
            self._deliver(action)
        if self.stores_at_once and self.unstored:
            self.store()

    def _deliver(self, action: Answer) -> None:
        waiting, answer = action.token, action.answer
        if isinstance(waiting, Joining):
            assert isinstance(answer, JoinAnswer)
            waiting.answers.append(answer)
        else:
            assert isinstance(waiting, Syncing)
            assert isinstance(answer, SyncAnswer)
            waiting.answers.append(answer)

    def store(self) -> None:
        """The oldest change that isn't stored is below the mark."""
        change = self.unstored.pop(0)
        self.stored.append(change.image)
        self.group.stored(self.now_ms, change.change, GroupError.NONE)
        self.act()

    def fail(self, error: GroupError = GroupError.NOT_AVAILABLE) -> None:
        """The oldest change that isn't stored has failed."""
        self.group.stored(self.now_ms, self.unstored.pop(0).change, error)
        self.act()

    def wait(self, ms: int) -> None:
        """Time goes by; what has a deadline is done at it."""
        until = self.now_ms + ms
        while (due := self.group.next_deadline_ms()) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.group.expire(self.now_ms)
            self.act()
        self.now_ms = until

    # What is seen

    def is_in(self, state: GroupState) -> bool:
        """Whether tools show this state."""
        return self.group.state is state

    @property
    def size(self) -> int:
        """How many members it has."""
        return len(self.group.described().members)

    # Whole stories

    def joined(self, *joinings: Joining) -> list[JoinAnswer]:
        """The members of a generation, which has begun."""
        answers = [joining.answer for joining in joinings]
        assert [answer.error for answer in answers] == [GroupError.NONE] * len(answers)
        return answers

    def assigned(self, *members: JoinAnswer) -> list[JoinAnswer]:
        """All members of a generation sync; each is assigned its own id."""
        assignments = {member.member_id: member.member_id.encode() for member in members}
        syncing = [
            self.sync(member, assignments if member.leader_id == member.member_id else {})
            for member in members
        ]
        assert [each.answer.assignment for each in syncing] == list(assignments.values())
        return list(members)

    def stable(self, count: int, *instance_ids: str, **join: object) -> list[JoinAnswer]:
        """A stable group of new members, so many dynamic ones before these static ones. The first leads."""
        names: list[str | None] = [*[None] * count, *instance_ids]
        joinings = [self.join(instance_id=name, **join) for name in names]  # type: ignore[arg-type]
        self.wait(self.settings.initial_delay_ms * 2)
        return self.assigned(*self.joined(*joinings))
