"""Compiles the node's hot modules with mypyc: a part of protos/kernel_build.py, which people and builds call.

All modules of `MODULES` become one library, so that they call each other as C functions and see each other's
attributes at fixed places. `tank_node.kernel` says where it lies and when it is used. C files are compiled in
parallel, and what came of them is kept in a folder: after a change most of them need not be compiled again.
"""

import ast
import hashlib
import json
import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "node/tank_node/compiled"
GROUP = "tank_node.compiled.kernel"
LIBRARY = "kernel__mypyc"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
# Roots of what the modules may import from us.
ROOMS = ("node", "protos")

MODULES = (
    *("clock", "frame_session", "metrics", "output", "session"),
    *("broker.broker", "broker.wait_list"),
    *("log.append", "log.epoch_history", "log.flush_work", "log.index", "log.log", "log.open_files"),
    *("log.producers", "log.pushed", "log.pushing", "log.reading", "log.record", "log.replica"),
    *("log.segment", "log.staged"),
    *("partition.acks", "partition.follower", "partition.follower_reads", "partition.leader"),
    *("partition.numbering", "partition.partition", "partition.reads", "partition.waiters"),
    *("peers.forward_session", "peers.inbound", "peers.outbound", "peers.replicator"),
    *("replication.append_check", "replication.in_sync", "replication.progress", "replication.push_frame"),
    *("replication.role", "replication.stream"),
    *("server.connection", "server.connections", "server.loop", "server.memory"),
    *("server.receiver", "server.server"),
    *("tank.acks", "tank.end_waits", "tank.extensions", "tank.fetch", "tank.fetch_fast"),
    *("tank.fetch_templates", "tank.forwarded_fetch", "tank.produce", "tank.produce_templates"),
    "tank.session",
)
"""What runs for each request, and the classes whose attributes that reads. A class and its subclasses belong
in here together. Configuration, recovery, compaction and administration stay out: no request waits for them,
and each module costs seconds of every build."""

# As for the twins: no -march, since a wheel runs elsewhere; no debug symbols, they are most of it.
COMPILE_ARGUMENTS = ["-O2", "-g0", "-w"]
# What is installed must not decide what is built, and types are the business of `make check`.
MYPY_ARGUMENTS = [
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--explicit-package-bases",
    f"--cache-dir={os.devnull}",
]


def source_of(module: str) -> str:
    """The path of a module of the node, below the root."""
    return f"node/tank_node/{module.replace('.', '/')}.py"


def sources() -> list[str]:
    """Everything of ours that decides what is built: the modules, this file, and all that they import, whose
    constants and types are compiled in. Paths below the root."""
    waiting = [source_of(module) for module in MODULES]
    found = {"node/native_build.py": None}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += _imported(ROOT / name)
    return sorted(found)


def _imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    found = []
    for name in names:
        if name.startswith(("tank_node", "tank_protos")):
            below = name.replace(".", "/")
            places = [f"{room}/{below}{end}" for room in ROOMS for end in (".py", "/__init__.py")]
            found += [place for place in places if (ROOT / place).exists()]
    return found


def compile_modules(out: Path, scratch: Path, kept: Path) -> None:
    """The library and a file for each module, below `out` as a wheel has them.

    `kept` holds what was compiled before, by what it was compiled from, and afterwards just what this build
    needed. Exits or raises what the tools raise.
    """
    import setuptools  # noqa: F401  mypyc asks whether it is there
    from mypyc.build import mypycify
    from setuptools._distutils import ccompiler
    from setuptools._distutils.sysconfig import customize_compiler

    os.environ["MYPYPATH"] = os.pathsep.join(str(ROOT / room) for room in ROOMS)
    # Paths as people know them: tracebacks show them.
    os.chdir(ROOT)
    library, *modules = mypycify(
        [*MYPY_ARGUMENTS, *map(source_of, MODULES)],
        multi_file=True,
        group_name=GROUP,
        target_dir=str(scratch),
    )
    compiler = ccompiler.new_compiler()
    customize_compiler(compiler)
    include = [*library.include_dirs, str(scratch / "tank_node/compiled"), sysconfig.get_path("include")]
    headers = b"".join(sorted(path.read_bytes() for path in scratch.rglob("*.h")))
    kept.mkdir(parents=True, exist_ok=True)

    def compiled(source: str) -> str:
        # With Python and mypy come headers that are not in `headers`.
        command = [sys.version, version("mypy"), *compiler.compiler_so, *COMPILE_ARGUMENTS]
        key = hashlib.sha256(json.dumps(command).encode() + headers + Path(source).read_bytes()).hexdigest()
        target = kept / f"{key[:32]}.o"
        if not target.exists():
            (made,) = compiler.compile(
                [source], output_dir=str(scratch / "objects"), include_dirs=include,
                extra_postargs=COMPILE_ARGUMENTS,
            )  # fmt: skip
            shutil.move(made, target)
        return str(target)

    extensions = [(library, "compiled"), *((module, "compiled/tank_node") for module in modules)]
    wanted = sorted({file for one, _ in extensions for file in one.sources}, key=_size, reverse=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = dict(zip(wanted, pool.map(compiled, wanted), strict=True))
    for one, folder in extensions:
        inner = one.name.split(".")[1:] if one is not library else [LIBRARY]
        target = out.joinpath("tank_node", folder, *inner[:-1], inner[-1] + SUFFIX)
        compiler.link_shared_object(
            [objects[file] for file in one.sources], str(target), extra_postargs=["-s"], target_lang="c"
        )
    for old in kept.iterdir():
        if str(old) not in objects.values():
            old.unlink()


def _size(path: str) -> int:
    return os.path.getsize(path)


def stale(room: Any) -> list[str]:
    """The sources that were changed since the modules were built in place; all when they were not built.

    Args:
        room: the module tank_protos.compiled.
    """
    known = room.recorded(FOLDER).get(LIBRARY + SUFFIX)
    if known is None or not (FOLDER / (LIBRARY + SUFFIX)).exists():
        return sources()
    return list(room.changed(ROOT, known))


def built() -> bool:
    """Whether the modules were built in place, whatever from."""
    return (FOLDER / (LIBRARY + SUFFIX)).exists()


def build_in_place(room: Any, scratch: Path) -> None:
    """Compiles, and takes the place of what was there before; processes that run that keep it."""
    stamps = room.stamps(ROOT, sources())
    compile_modules(scratch / "out", scratch / "c", ROOT / "build/native")
    made = scratch / "out/tank_node/compiled"
    files = {path.relative_to(made) for path in made.rglob("*" + SUFFIX)}
    for old in FOLDER.rglob("*" + SUFFIX):
        if old.relative_to(FOLDER) not in files:
            old.unlink()
    for name in sorted(files):
        _replace(FOLDER / name, (made / name).read_bytes())
    known = room.recorded(FOLDER) | {LIBRARY + SUFFIX: stamps}
    _replace(FOLDER / room.BUILT, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    os.replace(fresh, path)
