"""The compiled twins of hot functions: Cython in pure-Python mode, optional, chosen by `tank_protos.kernel`.

Each module here is the source of a compiled module beside it. Imported without that, it raises ImportError.
Where it was built for a checkout, `built.json` tells by compiled file from which sources; wheels have no such
file.
"""

import zlib
from pathlib import Path

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


def recorded(folder: Path) -> dict[str, int]:
    """By compiled file, the fingerprint of what it was built from; empty where nothing was built in place.

    Not by module: several Pythons may have built it, at different times."""
    try:
        text = (folder / BUILT).read_bytes()
    except OSError:
        return {}
    import json  # what is installed from a wheel needs none

    return dict(json.loads(text))


def outdated(file: Path) -> bool:
    """Whether the compiled module in a checkout was built from other sources than those beside it."""
    known = recorded(file.parent).get(file.name)
    return known is not None and known != fingerprint(file.parent, file.name.partition(".")[0])
