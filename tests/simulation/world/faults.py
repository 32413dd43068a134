"""The faults of a story: their kinds, times and lengths are random, within the limits that the design
guarantees to survive.

Faults are counted by kind. Those that no guarantee covers are left out: two emptied controllers at once, a
disk that forgets synced data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tests.simulation.world.clocks import ClockError
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.network import Network
from tests.simulation.world.world import MS, SECOND, Life, World


class Machine(Protocol):
    """A computer with a disk and at most one process on it."""

    name: str
    disk: SimulatedDisk
    life: Life | None
    clock_error: ClockError

    def start(self) -> None: ...

    def end(self, power: bool) -> None: ...

    def break_streams(self, share: float, late_us: int) -> None: ...


@dataclass(slots=True)
class Plan:
    """How bad it gets in this story: how often each kind of fault comes, beside the others."""

    pause_us: int
    """Between two faults, about."""
    weights: dict[str, float] = field(default_factory=dict)
    down_us: Sequence[int] = (0, 20 * MS, 300 * MS, 3 * SECOND, 8 * SECOND)
    """One of these passes before a process is started again: at once, faster than anybody notices, soon, or
    after everybody has noticed."""
    cut_us: Sequence[int] = (100 * MS, SECOND, 5 * SECOND, 15 * SECOND)
    """So long a partition lasts."""
    frozen_us: Sequence[int] = (50 * MS, 700 * MS, 3 * SECOND, 12 * SECOND)


CLOCK_STEPS_MS = (0, 0, 700, -4000, 90_000, -90_000, 9 * 86_400_000, -9 * 86_400_000, 365 * 86_400_000)
"""How far a clock is ahead after a step: as time servers correct, beyond what brokers may differ by, beyond
what producers are remembered for, and a year."""
TWO_AT_ONCE = 0.2
"""How often two things go wrong in the same moment: what one leaves open, the other hits."""

LEADER_AWAY = "leader away"
UNDER_A_BROKER = "changed bytes under a running broker"

KINDS = (
    "kill",
    "power loss",
    "power loss of all",
    "freeze",
    "end between two writes",
    "partition",
    "one-way partition",
    "broken streams",
    "failed fsync",
    "full disk",
    "emptied disk",
    "folder put back",
    "address reused",
    "starts that end early",
    "clean stop",
    "changed bytes",
    UNDER_A_BROKER,
    LEADER_AWAY,
    "lost index",
    "clock step",
    "read errors",
    "too many open files",
)


def plan(world: World) -> Plan:
    """Some kinds are frequent, some rare, some don't come at all."""
    weights = {kind: world.random.choice((0.0, 0.3, 1.0, 1.0, 3.0)) for kind in KINDS}
    weights["power loss of all"] = min(weights["power loss of all"], 0.3)
    return Plan(world.random.choice((300, 1000, 2500, 5000)) * MS, weights)


HASTY = {"kill": 3.0, "power loss": 1.0, "freeze": 3.0, "partition": 3.0, "one-way partition": 3.0}
"""Of a story in which each election is disturbed by the next fault."""


def hasty_plan(world: World) -> Plan:
    """Faults come faster than elections take, and none lasts long: terms pass quickly, and what is on its way
    comes in another one."""
    weights = {kind: HASTY.get(kind, world.random.choice((0.0, 0.0, 0.3))) for kind in KINDS}
    return Plan(
        world.random.choice((200, 500, 1000)) * MS,
        weights,
        down_us=(0, 20 * MS, 300 * MS),
        cut_us=(100 * MS, 600 * MS, 2 * SECOND),
        frozen_us=(50 * MS, 700 * MS, 2 * SECOND),
    )


class Faults:
    """Makes them."""

    def __init__(
        self,
        world: World,
        network: Network,
        machines: Sequence[Machine],
        plan: Plan,
        own: Mapping[str, Callable[[Machine], bool]],
    ) -> None:
        """`own`: of this story. Each makes a fault where it must be survived now, and says whether it did;
        the machine is started again, where that ended its process."""
        self.world = world
        self.network = network
        self.machines = machines
        self.plan = plan
        self.active = False
        self._own = own
        self.lasting: SimulatedDisk | None = None
        """One that is full, and stays so until somebody makes room."""
        self._makers: dict[str, Callable[[Machine], None]] = {
            "kill": lambda machine: self._end(machine, power=False),
            "power loss": lambda machine: self._end(machine, power=True),
            "power loss of all": self._end_all,
            "freeze": self._freeze,
            "end between two writes": self._end_between_writes,
            "partition": lambda machine: self._cut(machine, one_way=False),
            "one-way partition": lambda machine: self._cut(machine, one_way=True),
            "broken streams": self._break_streams,
            "failed fsync": self._fail_sync,
            "full disk": self._fill,
            "starts that end early": self._start_in_vain,
            "clock step": self._step_clock,
            "read errors": self._fail_reads,
            "too many open files": self._open_no_more,
        }
        for kind in own:
            self._makers[kind] = partial(self._make_own, kind)
        self._kinds = [kind for kind in KINDS if plan.weights[kind] and kind in self._makers]
        self._weights = [plan.weights[kind] for kind in self._kinds]

    def begin(self) -> None:
        """From now on."""
        self.active = True
        self._next()

    def stop(self) -> None:
        """No more; what is broken is mended, who is down is started."""
        self.active = False
        self.network.heal()
        for machine in self.machines:
            if machine.disk is not self.lasting:
                machine.disk.capacity_bytes = None
            machine.disk.stop_at = None
            machine.disk.recover()
            if machine.life is None:
                machine.start()
            elif machine.life.frozen:
                self.world.thaw(machine.life)

    def watch(self) -> None:
        """Starts what isn't running and isn't planned to be: a supervisor, as every platform has one."""
        for machine in self.machines:
            if machine.life is None and (not self.active or self.world.chance(0.5)):
                machine.start()

    def _next(self) -> None:
        if not self.active:
            return
        self.world.after(self.world.between(1, 2 * self.plan.pause_us), None, self._next)
        if not self._kinds:
            return
        for _ in range(2 if self.world.chance(TWO_AT_ONCE) else 1):
            kind = self.world.random.choices(self._kinds, self._weights)[0]
            self._makers[kind](self.world.random.choice(self.machines))

    def _end(self, machine: Machine, *, power: bool) -> None:
        if machine.life is None:
            return
        self.world.fault("power loss" if power else "kill", "of %s", machine.name)
        machine.end(power)
        self._start_again(machine)

    def _start_again(self, machine: Machine) -> None:
        """See `Plan.down_us`."""
        delay = self.world.random.choice(self.plan.down_us)
        self.world.after(delay, None, lambda: self._start(machine))

    def _start(self, machine: Machine) -> None:
        if machine.life is None:
            machine.start()

    def _end_all(self, _: Machine) -> None:
        self.world.fault("power loss of all")
        for machine in self.machines:
            if machine.life is not None:
                machine.end(True)
            self._start_again(machine)

    def _freeze(self, machine: Machine) -> None:
        life = machine.life
        if life is None or life.frozen:
            return
        self.world.fault("freeze", "of %s", machine.name)
        life.frozen = True
        delay = self.world.random.choice(self.plan.frozen_us)
        self.world.after(delay, None, lambda: self.thaw(life))

    def thaw(self, life: Life) -> None:
        """It goes on, with all that waited for it."""
        if life.alive and life.frozen:
            self.world.say(life.name, "goes on")
            self.world.thaw(life)

    def _end_between_writes(self, machine: Machine) -> None:
        if machine.life is not None:
            power = self.world.chance(0.5)
            kind = "power loss between two writes" if power else "kill between two writes"
            self.world.fault(kind, "of %s", machine.name)
            machine.disk.stop_soon(self.world.between(0, 12), power=power)

    def _cut(self, machine: Machine, *, one_way: bool) -> None:
        if self.network.cuts:
            self.world.say("FAULT", "the network heals")
            self.network.heal()
            return
        names = [other.name for other in self.machines]
        alone = [machine.name]
        if self.world.chance(0.3):
            alone = [name for name in names if self.world.chance(0.5)] or alone
        others = [name for name in names if name not in alone]
        if self.world.chance(0.2) and others:
            others = [self.world.random.choice(others)]
        if one_way and self.world.chance(0.5):
            alone, others = others, alone
        self.world.fault(
            "one-way partition" if one_way else "partition", "%s from %s", tuple(alone), tuple(others)
        )
        self.network.cut(alone, others, one_way=one_way)
        delay = self.world.random.choice(self.plan.cut_us)
        self.world.after(delay, None, self.network.heal)

    def cut_somewhere(self) -> None:
        """Some are parted from the others, unless some are."""
        if not self.network.cuts and self.active:
            self._cut(self.world.random.choice(self.machines), one_way=False)

    def _break_streams(self, machine: Machine) -> None:
        self.world.fault("broken streams", "of %s", machine.name)
        for stream in list(self.network.streams.values()):
            if machine.name in (stream.near.machine, stream.far.machine) and self.world.chance(0.6):
                stream.reset()
        machine.break_streams(0.6, self.world.random.choice((0, 0, 3 * SECOND)))

    def _fail_sync(self, machine: Machine) -> None:
        if machine.life is not None:
            self.world.fault("failed fsync", "at %s", machine.name)
            machine.disk.failing_syncs += 1

    def _fail_reads(self, machine: Machine) -> None:
        """A few of them, of the process or of its next start."""
        self.world.fault("read errors", "at %s", machine.name)
        machine.disk.failing_reads += self.world.random.choice((1, 1, 2, 20))
        if self.world.chance(0.3):
            machine.end(False)
            machine.disk.failing_reads = 1
            self._start_again(machine)
        delay = self.world.between(100 * MS, 3 * SECOND)
        self.world.after(delay, None, partial(_read_again, machine.disk))

    def _open_no_more(self, machine: Machine) -> None:
        """No file beyond those that are open, or a few more; a start may meet that."""
        disk = machine.disk
        if disk.max_open_files is not None:
            return
        self.world.fault("too many open files", "at %s", machine.name)
        if self.world.chance(0.3):
            machine.end(False)
            self._start_again(machine)
        disk.max_open_files = disk.open_files + self.world.random.choice((0, 0, 1, 3))
        self.world.after(self.world.between(100 * MS, 5 * SECOND), None, partial(_open_again, disk))

    def _fill(self, machine: Machine) -> None:
        disk = machine.disk
        if disk.capacity_bytes is not None:
            return
        self.world.fault("full disk", "at %s", machine.name)
        disk.capacity_bytes = disk.used_bytes + self.world.between(0, 600)
        self.world.after(self.world.between(100 * MS, 5 * SECOND), None, lambda: _make_room(disk))

    def fill_for_good(self, machine: Machine) -> None:
        """Its disk is full from now on, until somebody makes room."""
        self.world.fault("full disk that stays so", "at %s", machine.name)
        self.lasting = machine.disk
        self.lasting.capacity_bytes = self.lasting.used_bytes

    def make_room(self) -> None:
        """Somebody has noticed."""
        if self.lasting is not None:
            self.lasting.capacity_bytes = None
            self.lasting = None

    def _step_clock(self, machine: Machine) -> None:
        """Forward, back, or right again; for processes that run, and for those that start with it."""
        step_ms = self.world.random.choice(CLOCK_STEPS_MS)
        self.world.fault("clock step", "of %s: it is %s ms ahead now", machine.name, step_ms)
        machine.clock_error.wrong_by_ms = step_ms

    def _start_in_vain(self, machine: Machine) -> None:
        """After a loss of power some processes end before anybody has heard of them."""
        self.world.fault("starts that end early", "of %s", machine.name)
        machine.end(True)
        moment = self.world.between(1, 300 * MS)
        for _ in range(self.world.between(1, 3)):
            self.world.after(moment, None, lambda: self._start(machine))
            moment += self.world.between(1, 150 * MS)
            self.world.after(moment, None, lambda: self._end_again(machine))
            moment += self.world.between(1, 300 * MS)
        self._start_again(machine)

    def _end_again(self, machine: Machine) -> None:
        if machine.life is not None and self.active:
            machine.end(False)

    def _make_own(self, kind: str, machine: Machine) -> None:
        if self._own[kind](machine):
            self.world.fault(kind, "of %s", machine.name)
            self._start_again(machine)


def _make_room(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = None


def _read_again(disk: SimulatedDisk) -> None:
    disk.failing_reads = 0


def _open_again(disk: SimulatedDisk) -> None:
    disk.max_open_files = None
