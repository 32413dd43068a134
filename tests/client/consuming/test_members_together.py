"""Several members of one group, with a coordinator that assigns by their heartbeats: no partition is handed
out by two of them at once, every one is handed out in the end, and positions never go back."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tank_client import errors
from tank_client.consuming.held_partitions import PartitionEvent
from tank_client.consuming.membership import MemberHeartbeat, Membership, MemberTimes
from tank_protos.error_codes import ErrorCode
from tests.support.clients.sharing_group import Route, SharingGroup

PARTITIONS = 5
BEAT_MS = 100
TIMES = MemberTimes(session_ms=1000, max_poll_ms=10_000, give_up_ms=10**9)
EVENTS = ("join", "beat", "lose request", "lose answer", "read", "work", "leave", "die", "pass")
MAX_MEMBERS = 4


@dataclass
class Program:
    """A member and the program that reads by it."""

    name: str
    membership: Membership
    positions: dict[Route, int] = field(default_factory=dict)


class Scene:
    """A group, its members, and the time."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.group = SharingGroup({"t": PARTITIONS})
        self.heard_ms: dict[str, float] = {}
        self.programs: list[Program] = []
        self.names = 0

    def join(self, who: int) -> None:
        if len(self.programs) < MAX_MEMBERS:
            self.names += 1
            membership = Membership(TIMES, self.now_ms)
            membership.reads()
            self.programs.append(Program(f"m{self.names}", membership))

    def beat(self, who: int, *, arrives: bool = True, comes_back: bool = True) -> None:
        if not self.programs:
            return
        program = self.programs[who % len(self.programs)]
        beat = program.membership.heartbeat(self.now_ms)
        if beat is None:
            return
        answer = self._serve(program.name, beat) if arrives else None
        if answer is None or not comes_back:
            program.membership.failed(errors.ConnectionLost("gone"), self.now_ms, BEAT_MS / 2)
            return
        error, epoch, assignment = answer
        if error in (ErrorCode.UNKNOWN_MEMBER, ErrorCode.FENCED_MEMBER_EPOCH):
            program.membership.fenced(self.now_ms)
        else:
            assert error == 0
            program.membership.answered(epoch, BEAT_MS, assignment, self.now_ms)

    def _serve(self, name: str, beat: MemberHeartbeat) -> tuple[int, int, frozenset[Route]]:
        self.heard_ms[name] = self.now_ms
        return self.group.heartbeat(name, beat.epoch, owned=beat.owned)

    def read(self, who: int) -> None:
        """The program hears of one change."""
        if not self.programs:
            return
        program = self.programs[who % len(self.programs)]
        partitions = program.membership.partitions
        change = partitions.change()
        if change is None:
            return
        if change.kind is PartitionEvent.ASSIGNED:
            for route in partitions.begin(change.partitions, partitions.assignments):
                program.positions[route] = self.group.positions.get(route, 1)
            return
        if change.kind is PartitionEvent.REVOKED:
            moved = {route: program.positions[route] for route in change.partitions}
            if self.group.commit(program.name, program.membership.epoch, moved):
                return
            program.membership.release(change.partitions, self.now_ms)
        else:
            partitions.heard_of_loss(change.partitions)
        for route in change.partitions:
            del program.positions[route]

    def work(self, who: int) -> None:
        """The program reads on in all that it may read."""
        if self.programs:
            program = self.programs[who % len(self.programs)]
            for route in program.membership.partitions.readable:
                program.positions[route] += 1

    def leave(self, who: int) -> None:
        if not self.programs:
            return
        program = self.programs.pop(who % len(self.programs))
        program.membership.close()
        farewell = program.membership.leave()
        if farewell is not None:
            self._serve(program.name, farewell)

    def die(self, who: int) -> None:
        if self.programs:
            self.programs.pop(who % len(self.programs))

    def step(self, who: int) -> None:
        """Time passes, for the members first: their sessions end no later than the coordinator ends them."""
        self.now_ms += BEAT_MS
        for program in self.programs:
            program.membership.passed(self.now_ms)
        for name, heard_ms in self.heard_ms.items():
            if self.now_ms - heard_ms >= TIMES.session_ms:
                self.group.expire(name)

    def run(self, event: str, who: int) -> None:
        match event:
            case "lose request":
                self.beat(who, arrives=False)
            case "lose answer":
                self.beat(who, comes_back=False)
            case "pass":
                self.step(who)
            case _:
                getattr(self, event)(who)

    def check(self) -> None:
        readers: dict[Route, str] = {}
        for program in self.programs:
            for route in program.membership.partitions.readable:
                assert route not in readers, f"{route} is handed out by {readers[route]} and {program.name}"
                readers[route] = program.name


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, MAX_MEMBERS - 1)), max_size=80))
def test_no_partition_is_handed_out_by_two_members(events: list[tuple[str, int]]) -> None:
    scene = Scene()
    committed: dict[Route, int] = {}
    for event, who in events:
        scene.run(event, who)
        scene.check()
        assert all(scene.group.positions[route] >= number for route, number in committed.items())
        committed = dict(scene.group.positions)
    scene.join(0)
    for _ in range(40):
        scene.step(0)
        for who in range(len(scene.programs)):
            scene.beat(who)
            scene.read(who)
            scene.work(who)
            scene.check()
    readers = [route for each in scene.programs for route in each.membership.partitions.readable]
    assert sorted(readers) == [("t", number) for number in range(PARTITIONS)], "each has its reader"
