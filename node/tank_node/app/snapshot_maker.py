"""Makes files for diagnosis: zip files of what helps to find a fault in a broker, without secrets."""

import io
import logging
import os
import platform
import threading
from collections.abc import Callable, Mapping
from typing import Final

from tank_node.app.config import OPTIONS, NodeConfig
from tank_node.app.recent_log import RecentLog
from tank_node.iggy.services import Packing, SnapshotPart
from tank_node.limits import SNAPSHOT_BYTES
from tank_node.version import version_and_kernel

_SECRETS: Final = ("secret", "token", "password")
"""An option whose name has one of these words is shown as set or not, even if it is but a file's name."""
_ROOM_BYTES: Final = SNAPSHOT_BYTES - 64 * 1024
"""For the content: names and heads of the file's parts take less than the rest, and so does what packing adds
to content that it can't shorten."""
_CUT: Final = b"\n(what follows is left out: the file would be too long)\n"

_log = logging.getLogger("tank")


class SnapshotMaker:
    """Makes one file at a time, in a thread of its own. `make` is called on the event loop."""

    def __init__(
        self,
        config: NodeConfig,
        log: RecentLog,
        facts: Callable[[], Mapping[str, object]],
        metrics: Callable[[], bytes],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """facts, metrics: what is to be told of the broker, and its metrics as text; called on the event
        loop. post: runs a function there, in a tick; called from any thread."""
        self._config = config
        self._log = log
        self._facts = facts
        self._metrics = metrics
        self._post = post
        self._busy = False

    def make(self, parts: frozenset[SnapshotPart], packing: Packing, done: Callable[[bytes], None]) -> bool:
        """As `tank_node.iggy.services.Snapshots`."""
        if self._busy:
            return False
        contents = {"versions.txt": _lines({**_versions(), **self._facts()})}
        if SnapshotPart.CONFIGURATION in parts:
            contents["configuration.txt"] = _lines(shown_options(self._config))
        if SnapshotPart.LOG in parts:
            contents["log.txt"] = _encoded(self._log.text())
        if SnapshotPart.METRICS in parts:
            contents["metrics.txt"] = self._metrics()

        def work() -> None:
            zipped = _zipped(contents, packing)
            self._post(lambda: self._made(zipped, done))

        threading.Thread(target=work, name="snapshot", daemon=True).start()
        self._busy = True
        return True

    def _made(self, zipped: bytes, done: Callable[[bytes], None]) -> None:
        self._busy = False
        done(zipped)


def shown_options(config: NodeConfig) -> dict[str, object]:
    """The options as they are in force, without those that name secrets."""
    shown: dict[str, object] = {}
    for option in OPTIONS:
        value = getattr(config, option.name)
        if any(word in option.name for word in _SECRETS):
            value = "not set" if value is None else "set"
        shown[option.name] = value
    return shown


def _versions() -> dict[str, object]:
    system = os.uname()
    return {
        "tank-cluster": version_and_kernel(),
        "python": platform.python_version(),
        "system": f"{system.sysname} {system.release} {system.machine}",
    }


def _lines(facts: Mapping[str, object]) -> bytes:
    return _encoded("".join(f"{name} = {_told(value)}\n" for name, value in facts.items()))


def _encoded(text: str) -> bytes:
    """As UTF-8. Names of clients and files may have other bytes, which are lone surrogates."""
    return text.encode(errors="backslashreplace")


def _told(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={'/'.join(place)}" for name, place in value.items())
    return str(value)


def _zipped(contents: Mapping[str, bytes], packing: Packing) -> bytes:
    """Packs the contents, of which the last is cut where all would be too long; empty when that fails."""
    import zipfile  # few brokers are ever asked

    methods = {
        Packing.STORED: zipfile.ZIP_STORED,
        Packing.DEFLATE: zipfile.ZIP_DEFLATED,
        Packing.BZIP2: zipfile.ZIP_BZIP2,
        Packing.LZMA: zipfile.ZIP_LZMA,
    }
    out, left = io.BytesIO(), _ROOM_BYTES
    try:
        with zipfile.ZipFile(out, "w", methods[packing]) as file:
            for name, content in contents.items():
                kept = content if len(content) <= left else content[: max(left - len(_CUT), 0)] + _CUT
                file.writestr(name, kept)
                left -= len(kept)
    except Exception:
        _log.exception("a file for diagnosis could not be made")
        return b""
    zipped = out.getvalue()
    return zipped if len(zipped) <= SNAPSHOT_BYTES else b""
