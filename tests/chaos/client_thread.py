"""A client of a run that is a thread of its own: at work in one partition until it is told to stop."""

import linecache
import sys
import threading
from abc import abstractmethod

from tests.chaos.record import Place, Recorder


class ClientThread(threading.Thread):
    """Ends by itself only where it met what no fault explains."""

    def __init__(self, name: str, place: Place, recorder: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.place, self.recorder = place, recorder
        self.count = 0
        """Values that were stored or seen."""
        self.failure: BaseException | None = None
        """What ended it that shouldn't have."""
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error
        finally:
            self.leave()

    @property
    def place_in_code(self) -> str:
        """The line that it is at; empty: it has ended."""
        frame = sys._current_frames().get(self.ident or 0)
        return "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()

    @property
    def may_hang(self) -> bool:
        """Whether it is where its library, and nothing else, may wait for ever."""
        return False

    @abstractmethod
    def work(self) -> None:
        """All that it does."""

    def leave(self) -> None:
        """Gives back what `work` left open."""
