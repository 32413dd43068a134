"""The compiled twins of hot functions: Cython in pure-Python mode, optional, chosen by `tank_protos.kernel`.

Each module here is the source of a compiled module beside it. Imported without that, it raises ImportError.
Where it was built for a checkout, `built.json` tells by module from which sources; wheels have no such file.
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
    """By module, the fingerprint of what it was built from; empty where nothing was built in place."""
    try:
        text = (folder / BUILT).read_bytes()
    except OSError:
        return {}
    import json  # what is installed from a wheel needs none

    return dict(json.loads(text))


def outdated(folder: Path, name: str) -> bool:
    """Whether the compiled module in a checkout was built from other sources than those beside it."""
    known = recorded(folder)
    return name in known and known[name] != fingerprint(folder, name)
