"""Work that is too long for one turn of the event loop."""

from collections import deque
from collections.abc import Callable

from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.metrics import Metrics


class SlicedWork:
    """Work that is done in slices."""

    __slots__ = ()

    def slice(self) -> bool:
        """Goes on for some milliseconds. Returns whether there is more."""
        raise NotImplementedError

    def close(self, error: GroupError = GroupError.NOT_COORDINATOR) -> None:
        """Ends the work, and answers all requests that wait for it with this error."""
        raise NotImplementedError


class LongWork:
    """The work of several owners, who have slices in turn."""

    __slots__ = ("_at_work", "_metrics", "_ring")

    def __init__(self, metrics: Metrics, ring: Callable[[], None]) -> None:
        """ring: called when `turn` is to be called soon."""
        self._metrics = metrics
        self._ring = ring
        self._at_work: deque[SlicedWork] = deque()

    def begin(self, work: SlicedWork) -> None:
        """Has the work done, unless that is so already."""
        if work not in self._at_work:
            self._at_work.append(work)
        self._ring()

    def turn(self) -> None:
        """Does one slice, however many owners have work. After a bug the work ends."""
        if not self._at_work:
            return
        work = self._at_work.popleft()
        try:
            if work.slice() and work not in self._at_work:
                self._at_work.append(work)
        except Exception:
            report_bug(self._metrics, "long work for groups has failed, and begins anew when it is needed")
            work.close()
        if self._at_work:
            self._ring()
