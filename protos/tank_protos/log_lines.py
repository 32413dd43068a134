"""A server's own log: lines on stderr, for people or as JSON, one object a line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """`2026-11-21T09:00:00.000Z INFO tank_node.server.server: text key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on lines of its own."""
        line = f"{_time(record)} {record.levelname} {record.name}: {_one_line(record.getMessage())}"
        line += "".join(f" {key}={value}" for key, value in _extra(record).items())
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, even if the message has line ends."""
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def set_up_logs(*, as_json: bool, level: str, stream: TextIO | None = None) -> None:
    """Sends all loggers' lines to stderr (or `stream`). `level`: debug, info, warning or error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At these levels they log every single HTTP request.
    logging.getLogger("aiohttp.access").disabled = True
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return stamp.removesuffix("+00:00") + "Z"


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _one_line(message: str) -> str:
    return message.replace("\n", "\\n").replace("\r", "\\r")
