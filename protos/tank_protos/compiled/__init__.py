"""The compiled twins of hot functions: Cython in pure-Python mode, optional, chosen by `tank_protos.kernel`.

Each module here is the source of a compiled module beside it. Imported without that, it raises ImportError.
Where it was built for a checkout, `built.json` tells by compiled file from which sources; wheels have no such
file. The node's hot modules, which mypyc compiles from the sources that run where there is no compiler, keep
theirs in the same way: see `tank_node.kernel`.

- `bundle_header`, `bundle_encode`, `bundle_kernel`, `bundle_cut`, `arrow`: of `tank_protos.bundle`
- `produce_run`, `record_run`: of `tank_protos.storage`
- `kafka_batch`, `kafka_records`, `kafka_encode`, `kafka_run`, `kafka_to_tank`, `tank_to_kafka`: of
  `tank_protos.kafka`
- `iggy_send`, `iggy_poll`: of `tank_protos.iggy`
- `checksum`: CRC-32C
"""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BUILT = "built.json"


def fingerprint(folder: Path, name: str) -> int:
    """A checksum over what the twin is made of: its source, and the headers of the room that it names."""
    headers = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in (".h", ".pxd")}
    value, wanted = 0, [folder / f"{name}.py"]
    for path in wanted:
        content = path.read_bytes()
        value = zlib.crc32(content, zlib.crc32(path.name.encode(), value))
        wanted += [headers.pop(stem) for stem in list(headers) if stem.encode() in content]
    return value


def recorded(folder: Path) -> dict[str, Any]:
    """By compiled file, what it was built from: a twin's fingerprint, or the stamps of many sources. Empty
    where nothing was built in place.

    Not by module: several Pythons may have built it, at different times."""
    try:
        text = (folder / BUILT).read_bytes()
    except OSError:
        return {}
    import json  # what is installed from a wheel needs none

    return dict(json.loads(text))


def outdated(folder: Path, suffix: str) -> list[str]:
    """The twins in a checkout that were compiled from other sources than those beside them, or not at all;
    none where nothing was built in place for the Python whose compiled modules end with `suffix`."""
    known = {name: made for name, made in recorded(folder).items() if name.endswith(suffix)}
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__") if known else []
    return [
        name
        for name in names
        if known.get(name + suffix) != fingerprint(folder, name) or not (folder / (name + suffix)).exists()
    ]


def stamps(root: Path, sources: Iterable[str]) -> dict[str, list[int]]:
    """By source, a path below `root`: its size, when it was written (nanoseconds), and its checksum."""
    taken = {}
    for name in sources:
        status = (root / name).stat()
        taken[name] = [status.st_size, status.st_mtime_ns, zlib.crc32((root / name).read_bytes())]
    return taken


def changed(root: Path, known: Mapping[str, list[int]]) -> list[str]:
    """The sources that are no longer what their stamps say. Reads those alone whose size or time differ: it
    is asked whenever a process starts."""
    found = []
    for name, (size, written_ns, checksum) in known.items():
        path = root / name
        try:
            status = path.stat()
            if status.st_size != size or (
                status.st_mtime_ns != written_ns and zlib.crc32(path.read_bytes()) != checksum
            ):
                found.append(name)
        except OSError:
            found.append(name)
    return found
