"""Log lines: one a line for people, one object a line for programs, whatever the message holds."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from tank_protos.log_lines import set_up_logs


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(*, as_json: bool) -> list[str]:
    stream = io.StringIO()
    set_up_logs(as_json=as_json, level="info", stream=stream)
    log = logging.getLogger("tank.test")
    log.debug("not this")
    log.info("two\nlines %d", 7, extra={"topic": "t"})
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("failed")
    return stream.getvalue().splitlines()


def test_text_lines_have_time_level_logger_and_extra() -> None:
    lines = logged(as_json=False)
    assert lines[0].endswith("Z INFO tank.test: two\\nlines 7 topic=t")
    assert lines[1].endswith("ERROR tank.test: failed")
    assert lines[-1] == "ValueError: bad"


def test_json_lines_are_objects() -> None:
    first, second = (json.loads(line) for line in logged(as_json=True))
    assert first["message"] == "two\nlines 7"
    assert (first["level"], first["logger"], first["topic"]) == ("info", "tank.test", "t")
    assert first["time"].endswith("Z")
    assert "ValueError: bad" in second["traceback"]
