"""The newest lines of the process' own log, in memory."""

import logging
from collections import deque

from tank_protos.log_lines import TextFormatter


class RecentLog(logging.Handler):
    """Keeps the newest lines that the process writes to its log. Any thread may write and read."""

    def __init__(self, lines: int, chars: int) -> None:
        """lines: how many are kept; chars: how much of each."""
        super().__init__()
        self.setFormatter(TextFormatter())
        self._chars = chars
        self._lines: deque[str] = deque(maxlen=lines)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one record's line. A record that can't be written is dropped, as a log's own faults are."""
        try:
            self._lines.append(self.format(record)[: self._chars])
        except Exception:
            self.handleError(record)

    def text(self) -> str:
        """The lines, the oldest first."""
        self.acquire()  # a line that comes meanwhile would end the walk through them
        try:
            return "".join(f"{line}\n" for line in self._lines)
        finally:
            self.release()
