"""Compiles the node's hot modules with mypyc. protos/kernel_build.py, the command for builds, calls it.

All modules of `MODULES` become one library, so that they call each other as C functions and read each other's
attributes at fixed offsets. `tank_node.kernel` chooses whether to use the library. C files are compiled in
parallel, and object files are kept, so that a change compiles few files again.
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
OBJECTS = ROOT / "build/native"  # object files of earlier builds, named by their sources
GROUP = "tank_node.compiled.kernel"
LIBRARY = "kernel__mypyc"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
# The folders of our own packages that the modules may import.
ROOMS = ("node", "protos")

MODULES = (
    *("clock", "frame_session", "metrics", "output", "session"),
    *("broker.broker", "broker.deadlines", "broker.topic_waits", "broker.unpacking"),
    *(
        "coordinators.bugs",
        "coordinators.group",
        "coordinators.machine.group_hash",
        "coordinators.group_listing",
    ),
    *("coordinators.group_load", "coordinators.group_log", "coordinators.group_partition"),
    *("coordinators.group_room", "coordinators.group_timer", "coordinators.long_work"),
    *("coordinators.offset_changes", "coordinators.offset_sweep", "coordinators.partition_watch"),
    *("coordinators.machine.committed_offset", "coordinators.machine.group_memory"),
    *("coordinators.machine.stored_record", "coordinators.offsets.committed_offsets"),
    *("coordinators.offsets.deletion", "coordinators.records.group_records"),
    *("coordinators.records.kept_offset", "coordinators.records.record_reader"),
    *(
        "segment.cursors",
        "log.epoch_history",
        "log.flush_work",
        "log.health",
        "segment.index",
        "log.log",
        "segment.open_files",
    ),
    *("segment.batch_format", "segment.batch_formats", "segment.kafka_batches", "segment.tank_bundles"),
    "segment.produced_batch",
    *(
        "log.producer_table",
        "log.producers",
        "log.pushed",
        "log.pushing",
        "segment.reading",
        "segment.record",
    ),
    *("segment.segment", "segment.segments", "log.staged", "log.tail"),
    *("iggy.heartbeats", "iggy.session", "iggy.waits"),
    *("kafka.session", "kafka.settling", "kafka.leaders", "broker.topic_ids", "kafka.led"),
    *(
        "kafka.fetch.fetch",
        "kafka.fetch.fetch_answer",
        "kafka.fetch.fetch_context",
        "kafka.fetch.fetch_forms",
        "kafka.fetch.fetch_read",
        "kafka.fetch.fetch_sessions",
    ),
    *("kafka.fetch.bundle_converter", "kafka.fetch.partition_read", "broker.shared_parts"),
    *("kafka.topics.delete_records", "kafka.groups.offset_commit"),
    *("kafka.groups.commit_forms", "kafka.learned_forms"),
    *("kafka.produce.produce", "kafka.produce.produce_answer", "kafka.produce.produce_forms"),
    *("kafka.produce.produced_records", "kafka.produce.request_room"),
    *("partition.acks", "partition.follower", "partition.follower_reads", "partition.leader"),
    *(
        "partition.found_run",
        "partition.log_start",
        "partition.numbering",
        "partition.partition",
        "partition.waiters",
    ),
    *("peers.connection", "peers.connections", "peers.forward_session", "peers.in_sync_proposals"),
    *("peers.inbound", "peers.outbound", "peers.replicator"),
    *("replication.append_check", "replication.in_sync", "replication.progress", "replication.push_frame"),
    *("replication.role", "replication.stream"),
    *("server.connection", "server.connections", "server.loop", "server.memory"),
    *("server.receiver", "server.server", "server.transport"),
    *(
        "stored.leader.appending",
        "stored.leader.deletion",
        "stored.leader.flushing",
        "stored.leader.read_wait",
    ),
    *("tank.acks", "tank.end_waits", "tank.ends", "tank.fetch", "tank.fetch_fast"),
    *(
        "tank.fetch_templates",
        "tank.forwarded_fetch",
        "tank.idempotent",
        "tank.produce",
        "tank.produce_templates",
        "tank.record_batches",
    ),
    "tank.run_acks",
    "tank.session",
)
"""The modules that run for each request, and those of the classes whose attributes they read. A class and its
subclasses must be in here together. Configuration, recovery, compaction and administration stay out: no
request waits for them, and each module costs seconds of every build."""

# As for the twins: no -march, because a wheel runs on other machines; no debug symbols, which are most of the
# size.
COMPILE_ARGUMENTS = ["-O2", "-g0", "-w"]
# Installed packages must not change the result, and `make check` checks the types.
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
    """The paths, below the root, of all our files that influence the build: the modules, this file, and all
    their imports, whose constants and types are compiled in."""
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
    """Builds the library and a file for each module below `out`, laid out as in a wheel.

    kept: a folder of object files from earlier builds, named by their sources; afterwards it holds those of
    this build. Exits or raises as the tools do.
    """
    import setuptools  # noqa: F401  mypyc demands that it is imported
    from mypyc.build import mypycify
    from setuptools._distutils import ccompiler
    from setuptools._distutils.sysconfig import customize_compiler

    os.environ["MYPYPATH"] = os.pathsep.join(str(ROOT / room) for room in ROOMS)
    # Tracebacks show the paths of sources: relative to the root.
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
        # The versions of Python and mypy stand for their headers, which are not in `headers`; SUFFIX names
        # the platform.
        command = [SUFFIX, sys.version, version("mypy"), *compiler.compiler_so, *COMPILE_ARGUMENTS]
        key = hashlib.sha256(json.dumps(command).encode() + headers + Path(source).read_bytes()).hexdigest()
        target = kept / f"{key[:32]}.o"
        if not target.exists():
            (made,) = compiler.compile(
                [source], output_dir=str(scratch / "objects"), include_dirs=include,
                extra_postargs=COMPILE_ARGUMENTS,
            )  # fmt: skip
            fresh = target.with_suffix(".new")  # one that a full disk cut short is never taken for whole
            shutil.move(made, fresh)
            os.replace(fresh, target)
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
    """The sources that were changed since the modules were built in place; all sources when they were not
    built.

    Args: room: the module tank_protos.compiled.
    """
    known = room.recorded(FOLDER).get(LIBRARY + SUFFIX)
    if known is None or not (FOLDER / (LIBRARY + SUFFIX)).exists():
        return sources()
    return list(room.changed(ROOT, known))


def built() -> bool:
    """Whether the modules were built in place, from the present sources or older ones."""
    return (FOLDER / (LIBRARY + SUFFIX)).exists()


def build_in_place(room: Any, scratch: Path) -> None:
    """Compiles the modules, and replaces earlier ones file by file: running processes keep the old files."""
    stamps = room.stamps(ROOT, sources())
    compile_modules(scratch / "out", scratch / "c", OBJECTS)
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
