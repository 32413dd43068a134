"""The list of all groups of a broker, which is made in slices: there may be a hundred thousand of them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.long_work import LongWork, SlicedWork
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import ListedGroup
from tank_node.coordinators.machine.group_state import GroupState

Listed = Callable[[GroupError, list[ListedGroup]], None]
"""A callback that takes NONE, or LOADING where some groups are not read yet, and the groups."""

_STEP: Final = 256
"""How many groups a step lists: some 500 µs."""


class GroupListing(SlicedWork):
    """Lists the groups of all partitions. Who asks while a list is being made waits for the next one, because
    the present one may lack what has come since it began."""

    __slots__ = ("_broker", "_error", "_found", "_led", "_steps", "_waiting", "_waiting_next", "_work")

    def __init__(self, broker: Broker, led: Mapping[int, GroupPartition], work: LongWork) -> None:
        self._broker = broker
        self._led = led
        self._work = work
        self._steps: Iterator[None] | None = None
        self._found: list[ListedGroup] = []
        self._error = GroupError.NONE
        self._waiting: list[Listed] = []
        self._waiting_next: list[Listed] = []

    def ask(self, done: Listed) -> None:
        """Lists the groups: at once if they are few."""
        if self._steps is not None:
            self._waiting_next.append(done)
        else:
            self._waiting.append(done)
            self._start()

    def _start(self) -> None:
        self._found, self._error = [], GroupError.NONE
        self._steps = self._listing()
        if sum(len(each.groups) for each in self._led.values()) <= _STEP:
            for _ in self._steps:
                pass
            self._end()
        else:
            self._work.begin(self)

    def _listing(self) -> Iterator[None]:
        for led in list(self._led.values()):
            if led.state is GroupError.LOADING:
                self._error = GroupError.LOADING
            if led.state:
                continue
            for place, group in enumerate(list(led.groups.values()), 1):
                if group.members.state is not GroupState.DEAD:
                    self._found.append(group.listed())
                if place % _STEP == 0:
                    yield

    def slice(self) -> bool:
        """See `SlicedWork`."""
        steps, clock = self._steps, self._broker.clock
        if steps is None:
            return False
        until_us = clock.monotonic_us() + self._broker.limits.group_slice_ms * 1000
        for _ in steps:
            if clock.monotonic_us() >= until_us:
                return True
        self._end()
        return False

    def _end(self) -> None:
        self._answer(self._error, self._found)
        if self._waiting:
            self._start()

    def _answer(self, error: GroupError, found: list[ListedGroup]) -> None:
        self._steps, self._found = None, []
        waiting, self._waiting, self._waiting_next = self._waiting, self._waiting_next, []
        for done in waiting:
            try:
                done(error, found)
            except Exception:
                report_bug(self._broker.metrics, "a list of groups is not answered")

    def close(self, error: GroupError = GroupError.NOT_COORDINATOR) -> None:
        """See `SlicedWork`."""
        self._answer(error, [])
        self._answer(error, [])  # those that waited for the next list, too
